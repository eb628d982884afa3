# SPDX-License-Identifier: Apache-2.0
"""The first notebook runs on sample data, and its pictures agree with the plan."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.colors import network_colors
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.svg import fitted, width_of
from tests.pipeline import layer2, layer3, namespace, nodes, plan_of, workload

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "notebooks" / "01_first_light.ipynb"
SAMPLE = ROOT / "tests" / "data" / "first_light"
if str(NOTEBOOK.parent) not in sys.path:
    sys.path.insert(0, str(NOTEBOOK.parent))

from heddle_notebook import Report  # noqa: E402 - needs the path above
from heddle_notebook.logical import logical  # noqa: E402
from heddle_notebook.matrix import matrix  # noqa: E402
from heddle_notebook.path import path  # noqa: E402
from heddle_notebook.physical import physical  # noqa: E402
from heddle_notebook.trace import read_traces  # noqa: E402

PLAN = json.loads((SAMPLE / "plan.json").read_text())
VERIFY = json.loads((SAMPLE / "verify.json").read_text())
TRACES = read_traces((SAMPLE / "trace.txt").read_text())


def texts(svg: str) -> list[str]:
    """All text of a picture, which thereby is well-formed."""
    return [
        "".join(element.itertext()) for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def copy_of_the_sample(directory: Path) -> Path:
    for file in SAMPLE.iterdir():
        (directory / file.name).write_text(file.read_text())
    return directory


def run(reports: Path, output: Path) -> subprocess.CompletedProcess:
    command = [
        *(sys.executable, "-m", "papermill", "--no-progress-bar", "--cwd", str(NOTEBOOK.parent)),
        *(str(NOTEBOOK), str(output / "executed.ipynb")),
        *("-p", "report_directory", str(reports), "-p", "pictures_directory", str(output / "pictures")),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_it_runs_on_the_sample(tmp_path: Path) -> None:
    done = run(SAMPLE, tmp_path)
    assert done.returncode == 0, done.stderr
    pictures = {file.stem for file in (tmp_path / "pictures").iterdir()}
    assert pictures == {"physical", "matrix", "path-1", "path-2", *(f"logical-{name}" for name in PLAN["networks"])}


def test_it_fails_when_verify_failed(tmp_path: Path) -> None:
    failed = {**VERIFY, "passed": False, "failures": ["a -> b 10.0.0.4 (network n, IPv4): no answer"]}
    reports = copy_of_the_sample(tmp_path)
    (reports / "verify.json").write_text(json.dumps(failed))
    done = run(reports, tmp_path)
    assert done.returncode != 0
    assert "a -> b 10.0.0.4 (network n, IPv4): no answer" in done.stderr


def test_it_is_committed_without_outputs_and_names_its_parameters() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert [cell["metadata"].get("tags") for cell in code].count(["parameters"]) == 1


def test_a_missing_report_names_the_playbook_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"plan\.json is missing; run heddle.ovn.verify first"):
        Report(str(tmp_path))


@pytest.mark.parametrize("file, change, message", [
    ("audit.json", {"passed": False}, "the audit failed"),
    ("verify.json", {"plan": "other"}, "different plans"),
])  # fmt: skip
def test_check_reports_problems(tmp_path: Path, file: str, change: dict, message: str) -> None:
    reports = copy_of_the_sample(tmp_path)
    (reports / file).write_text(json.dumps({**json.loads((reports / file).read_text()), **change}))
    with pytest.raises(AssertionError, match=message):
        Report(str(reports)).check()


def test_the_physical_picture_has_every_host_and_workload() -> None:
    shown = texts(physical(PLAN))
    for name, node in PLAN["nodes"].items():
        assert {name, f"node id {node['id']}", *node["encap_ips"], *node["addresses"]} <= set(shown)
    assert set(PLAN["workloads"]) <= set(shown)
    assert "Geneve node1 ↔ node3" in shown


@pytest.mark.parametrize("network", list(PLAN["networks"]))
def test_a_logical_picture_has_all_addresses_and_keys_of_its_network(network: str) -> None:
    shown = " ".join(texts(logical(PLAN, network)))
    for key in PLAN["networks"][network]["tunnel_keys"]:
        assert f"tunnel key {key} (0x{key:x})" in shown
    for workload_ in PLAN["workloads"].values():
        for interface in workload_["interfaces"]:
            is_shown = interface["network"] == network and interface["role"] == "primary"
            assert (interface["mac"] in shown) == is_shown
            if is_shown:
                assert all(address in shown for address in interface["addresses"])


@pytest.mark.parametrize(
    "spec, wanted",
    [
        (
            "topology: Layer2, layer2: {role: Secondary, subnets: [10.7.0.0/24]}",
            ["net1", "10.7.0.1/24", "cluster_udn_x_ovn_layer2_switch"],
        ),
        ("topology: Layer2, layer2: {role: Secondary, ipam: {mode: Disabled}}", ["net1", "port key 1"]),
        (
            "topology: Layer3, layer3: {role: Secondary, subnets: [{cidr: 10.7.0.0/16}]}",
            ["net1", "10.7.0.3/24", "cluster_udn_x_transit_switch"],
        ),
        (
            "topology: Localnet, localnet: {role: Secondary, physicalNetworkName: factory, subnets: [10.7.0.0/24], "
            "vlan: {mode: Access, access: {id: 100}}}",
            ["net1", "10.7.0.1/24", "factory", "VLAN 100", "cluster_udn_x_ovn_localnet_switch"],
        ),
    ],
)  # fmt: skip
def test_secondary_networks_have_a_logical_picture(spec: str, wanted: list[str]) -> None:
    manifest = (
        "---\napiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {name: x}\n"
        f"spec: {{namespaceSelector: {{}}, network: {{{spec}}}}}\n"
    )
    plan = plan_of(namespace("many", primary=False) + manifest + workload("many", "w", "node1", "x"))
    shown = " ".join(texts(logical(plan, "cluster_udn_x")))
    assert [text for text in wanted if text not in shown] == []


def test_the_matrix_has_a_cell_for_each_pair() -> None:
    svg = matrix(PLAN, VERIFY)
    names = list(PLAN["workloads"])
    cells = re.findall(r"<title>(\S+) → (\S+)</title>", svg)
    assert sorted(cells) == sorted((source, target) for source in names for target in names)


def test_slow_answers_fit_into_the_matrix() -> None:
    slow = {**VERIFY, "pairs": [{**pair, "milliseconds": 130.4} for pair in VERIFY["pairs"]]}
    svg = matrix(PLAN, slow)
    assert ">130<" in svg and "e+" not in svg


def test_a_report_without_a_matrix_has_empty_cells() -> None:
    """That of many workloads has none."""
    svg = matrix(PLAN, {**VERIFY, "matrix": {}})
    assert svg.count(" → ") == len(PLAN["workloads"]) ** 2
    assert "a report of so many workloads does not say which" in svg


def test_the_matrix_of_some_namespaces() -> None:
    namespace = next(iter(PLAN["workloads"])).partition("/")[0]
    cells = re.findall(r"<title>(\S+) → (\S+)</title>", matrix(PLAN, VERIFY, [namespace]))
    assert cells and {name.partition("/")[0] for cell in cells for name in cell} == {namespace}


def test_networks_have_different_colors() -> None:
    colors = network_colors(PLAN)
    assert len({color.strong for color in colors.values()}) == len(colors)


def test_traces_are_read_as_hops() -> None:
    layer2_trace, layer3_trace = TRACES
    assert [[hop.datapath for hop in leg.hops] for leg in layer2_trace.legs] == [
        ["cluster_udn_blue_ovn_layer2_switch"]
    ] * 2
    assert [[hop.datapath for hop in leg.hops] for leg in layer3_trace.legs] == [
        ["red_red_node1", "red_red_ovn_cluster_router", "red_red_transit_switch"],
        ["red_red_transit_switch", "red_red_ovn_cluster_router", "red_red_node2"],
    ]
    router = layer3_trace.legs[0].hops[1]
    assert router.is_router
    assert router.changes == ["ip.ttl--", "eth.src = 0a:58:64:58:00:02", "eth.dst = 0a:58:64:58:00:03"]
    assert (router.inport, router.outport) == ("rtos-red_red_node1", "red_red_rtots-node1")
    assert all(leg.delivered for trace in TRACES for leg in trace.legs)


def test_a_dropped_packet_is_not_delivered() -> None:
    text = (
        "== a -> b (network n, 1 -> 2)\n-- on node1\n"
        'ingress(dp="s", inport="p")\n 0. ls_in_acl (northd.c:1): 1, priority 1\n    drop;\n'
    )
    leg = read_traces(text)[0].legs[0]
    assert not leg.delivered
    assert leg.hops[0].changes == ["drop"]


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.title)
def test_a_path_goes_through_the_tunnel(trace) -> None:
    shown = texts(path(PLAN, trace))
    assert "Geneve" in shown
    for leg in trace.legs:
        assert {leg.node, *(hop.datapath for hop in leg.hops)} <= set(shown)


def test_large_plans_are_cut_and_empty_ones_drawn() -> None:
    names = [f"host{number}" for number in range(1, 9)]
    text = (
        namespace("red")
        + layer2("red", "net", "10.0.0.0/16")
        + namespace("far")
        + layer3("far", "net", "10.1.0.0/16", 24)
    )
    many = plan_of(text + "".join(workload("red", f"w{number}", "host1") for number in range(30)), hosts=nodes(*names))
    assert "and 16 more" in texts(physical(many))
    assert "Geneve tunnels between all 8 hosts" in texts(physical(many))
    assert "and 24 more workloads" in texts(logical(many, "red_net"))
    assert "on no host, because no workload uses it" in texts(logical(many, "far_net"))
    assert "host2" not in " ".join(texts(logical(many, "red_net")))
    assert "no workloads" in texts(physical(plan_of("")))


def test_long_text_keeps_its_ends_and_fits() -> None:
    cut = fitted("a-very-long-name-of-something", 80, 12)
    assert width_of(cut, 12) <= 80
    assert cut.startswith("a-ve")
    assert cut.endswith("hing")
    assert fitted("short", 80, 12) == "short"
