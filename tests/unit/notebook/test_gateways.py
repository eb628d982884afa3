# SPDX-License-Identifier: Apache-2.0
"""The notebook on gateways runs on the sample of a lab's host, and reports problems of changed ones."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "notebooks" / "02_gateways.ipynb"
SAMPLE = ROOT / "tests" / "data" / "gateways"
if str(NOTEBOOK.parent) not in sys.path:
    sys.path.insert(0, str(NOTEBOOK.parent))

from heddle_notebook import Gateways  # noqa: E402 - needs the path above
from heddle_notebook.egress import bridge_steps, datapath_actions, logical_leg  # noqa: E402
from heddle_notebook.inside import connections, inside, pair_of  # noqa: E402

PLAN = json.loads((SAMPLE / "plan.json").read_text())
HOST = json.loads((SAMPLE / "host-node1.json").read_text())
DROPPED = HOST["egress"]["physical"].replace("Datapath actions: ct", "Datapath actions: drop,ct")


def texts(svg: str) -> list[str]:
    """All text of a picture, which thereby is well-formed; cut text is whole in its hint."""
    return ["".join(one.itertext()) for one in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def changed(directory: Path, **host) -> Gateways:
    """The sample with another host."""
    shutil.copytree(SAMPLE, directory, dirs_exist_ok=True)
    (directory / "host-node1.json").write_text(json.dumps({**HOST, **host}))
    return Gateways(str(directory), str(directory / "pictures"))


def test_it_runs_on_the_sample(tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "papermill", "--no-progress-bar", "--cwd", str(NOTEBOOK.parent)),
        *(str(NOTEBOOK), str(tmp_path / "executed.ipynb")),
        *("-p", "report_directory", str(SAMPLE), "-p", "pictures_directory", str(tmp_path / "pictures")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert {file.stem for file in (tmp_path / "pictures").iterdir()} == {"inside-node1", "egress-node1"}


def test_it_is_committed_without_outputs_and_names_its_parameters() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert [cell["metadata"].get("tags") for cell in code].count(["parameters"]) == 1


def test_the_inside_has_every_patch_port_of_both_bridges() -> None:
    shown = " ".join(texts(inside(PLAN, HOST)))
    patches = [port["name"] for bridge in HOST["bridges"] for port in bridge["ports"] if port["type"] == "patch"]
    assert len(patches) > 10
    for name in patches:
        assert name in shown
    assert f"{sum(HOST['flows'].values())} flows" in shown


def test_vrfs_are_drawn_with_members_and_rules(tmp_path: Path) -> None:
    vrfs = [{"name": "mp11-udn-vrf", "table": 1011, "members": ["ovn-k8s-mp11"]}]
    addresses = {**HOST["addresses"], "ovn-k8s-mp11": ["10.128.0.2/24"], "mp11-udn-vrf": []}
    rules = [{"priority": 2000, "src": "all", "dst": "169.254.0.32", "fwmark": "0x100b", "table": "1011", "family": 4}]
    report = changed(tmp_path, vrfs=vrfs, addresses=addresses, rules=rules)
    shown = texts(inside(PLAN, report.host))
    assert {"mp11-udn-vrf", "VRF, table 1011", "ovn-k8s-mp11", "10.128.0.2/24"} <= set(shown)
    assert "to 169.254.0.32 fwmark 0x100b" in report.rules()._repr_html_()


def test_packet_path_through_gateway_router_and_node_translation() -> None:
    hops = logical_leg(HOST).hops
    assert hops[-1].output_type == "localnet"
    assert any(hop.datapath.startswith("GR_") for hop in hops)
    assert "ct(commit,zone=64000" in " ".join(bridge_steps(HOST))
    assert "nat(src=" in datapath_actions(HOST)


def test_each_network_of_the_pair_has_a_mark_of_its_own() -> None:
    rows = pair_of(PLAN, HOST)
    assert {row["network"] for row in rows} == {network for _workload, network, _address in HOST["pair"]}
    assert len({row["mark"] for row in rows}) == 2
    own = {row["sent"].rpartition(":")[0].strip("[]") for row in connections(PLAN, HOST)}
    assert own <= set(PLAN["nodes"]["node1"]["addresses"])


@pytest.mark.parametrize("change, message", [
    ({"plan": "other"}, "is of another plan"),
    ({"conntrack": []}, "no marks of their own"),
    ({"egress": {**HOST["egress"], "physical": ""}}, "matched nothing"),
    ({"egress": {**HOST["egress"], "physical": DROPPED}}, "drops the packet"),
    ({"conntrack": [HOST["conntrack"][0], *HOST["conntrack"]]}, "by the same port"),
])  # fmt: skip
def test_check_reports_problems(tmp_path: Path, change: dict, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        changed(tmp_path, **change).check()


def test_a_missing_host_names_the_playbook(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"host-node9\.json is missing; run heddle.ovn.verify first"):
        Gateways(str(SAMPLE), str(tmp_path), "node9")
