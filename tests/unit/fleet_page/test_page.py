# SPDX-License-Identifier: Apache-2.0
"""What the page of the fleet has: data of all results, escaped, with what is missing or cannot be read."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_files import status_files
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_view import state_view
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages import colors
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.fleet import page
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.fleet.page import embedded, fleet_page
from tests.fleet import HOSTILE, write_report
from tests.pipeline import layer2, namespace, stored, workload

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = ROOT / "tests" / "data"


class Scripts(HTMLParser):
    """The script elements of a page, as an HTML parser finds them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "script":
            self._inside = True
            self.found.append("")

    def handle_endtag(self, tag):
        self._inside = self._inside and tag != "script"

    def handle_data(self, data):
        if self._inside:
            self.found[-1] += data


def data_of(directory: Path) -> dict:
    scripts = Scripts(fleet_page(directory)).found
    assert len(scripts) == 2
    return json.loads(scripts[0])


def copied(directory: Path, sample: str) -> Path:
    for file in (SAMPLES / sample).glob("*.json"):
        (directory / file.name).write_text(file.read_text())
    return directory


def test_a_manifest_cannot_end_the_script(tmp_path: Path) -> None:
    data = data_of(write_report(tmp_path))
    network = next(one for one in data["networks"] if one["name"] == "red_net")
    assert network["object"]["metadata"]["annotations"]["note"] == HOSTILE


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "]]>", "&lt;", "\u2028\u2029", '"\\', "%style%", "é"])
def test_text_stays_as_it_is(text: str) -> None:
    assert json.loads(embedded({text: text})) == {text: text}
    assert not re.search("[<>&\u2028\u2029]", embedded(text))


def test_the_page_refers_to_no_other_host(tmp_path: Path) -> None:
    text = fleet_page(write_report(tmp_path)).replace("http://www.w3.org/2000/svg", "")
    assert "://" not in text.replace(HOSTILE, "")
    assert "%" not in re.sub(r"\d%", "", text.split("<body>")[0])


def test_hosts_networks_and_workloads(tmp_path: Path) -> None:
    data = data_of(write_report(tmp_path, networks=2, workloads=6))
    assert [one["name"] for one in data["networks"]] == [
        "default", "blue_net", "red_net", "tenant-0000_net", "tenant-0001_net",
    ]  # fmt: skip
    assert {one["state"] for one in data["networks"]} == {"Ready"}
    assert {one["state"] for one in data["hosts"]} == {"ready"}
    assert len(data["workloads"]) == 10
    assert data["attention"] == []
    red = data["networks"][2]
    assert red["nodes"] == ["node1", "node2", "node3"]
    assert red["views"]["node1"]["gateway_router"] == "GR_red_net_node1"
    assert red["views"]["node1"]["gateways"] == ["10.0.0.1/24", "fd00:10::1/64"]


def test_what_needs_attention(tmp_path: Path) -> None:
    """A network that claims a namespace which has one, its workload, and a host that did not answer."""
    text = namespace("red") + layer2("red", "net", "10.0.0.0/24") + layer2("red", "other", "10.1.0.0/24")
    snapshot = stored(text + workload("red", "w", "node1") + namespace("blue") + workload("blue", "waits", "node1"))
    snapshot.revision = 1
    for name, content in status_files(state_view(snapshot), {"node2": {}}).items():
        (tmp_path / name).write_text(content)
    data = data_of(tmp_path)
    lines = data["attention"]
    assert lines[:3] == [f"node{number}: no answer" for number in (1, 2, 3)]
    refused = next(one for one in data["networks"] if one["id"] is None)
    assert refused["name"] == "UserDefinedNetwork/red/other"
    assert any("PrimaryNetworkMissing" in line for line in lines)
    waits = next(one for one in data["workloads"] if one["name"] == "blue/waits")
    assert waits["interfaces"] == []
    assert waits["conditions"][0]["reason"] == "PrimaryNetworkMissing"


def test_results_of_playbooks(tmp_path: Path) -> None:
    (tmp_path / "migrate_workload.json").write_text(
        json.dumps({"workload": "red/vm", "from": "node1", "to": "node2", "node": "node2", "downtime_ms": 12})
    )
    copied(copied(tmp_path, "gateways"), "layer2_upgrade")
    audit = json.loads((tmp_path / "audit.json").read_text())
    for host in audit["hosts"].values():
        host["notes"] = ["a note"]
    (tmp_path / "audit.json").write_text(json.dumps(audit))
    runs = {run["name"]: run for run in data_of(tmp_path)["runs"]}
    assert {name: run["passed"] for name, run in runs.items()} == dict.fromkeys(runs, True)
    assert runs["audit"]["time"] == audit["time"]
    assert runs["audit"]["lines"][0] == "node1: note: a note"
    assert runs["migration"]["summary"] == "red/vm from node1 to node2, downtime 12 ms"
    assert runs["upgrade"]["links"] == ["upgrade_layer2.json"]


def test_failures_are_listed(tmp_path: Path) -> None:
    copied(tmp_path, "gateways")
    verify = json.loads((tmp_path / "verify.json").read_text())
    verify |= {"passed": False, "failures": [f"failure {number}" for number in range(50)]}
    (tmp_path / "verify.json").write_text(json.dumps(verify))
    run = data_of(tmp_path)["runs"][0]
    assert not run["passed"]
    assert run["lines"][0] == "failure 0"
    assert re.fullmatch(r"and \d+ more", run["lines"][-1])


def test_an_empty_directory(tmp_path: Path) -> None:
    data = data_of(tmp_path / "missing")
    assert not data["known"]
    assert data["problems"] == []
    assert {run["passed"] for run in data["runs"]} == {None}


@pytest.mark.parametrize("name", ["status", "verify", "audit", "upgrade_layer2", "migrate_workload"])
@pytest.mark.parametrize("content", ["{", "[1]", "\x00"])
def test_a_result_that_cannot_be_read_is_stated(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / f"{name}.json").write_text(content)
    assert any(line.startswith(f"{name}.json ") for line in data_of(tmp_path)["problems"])


@pytest.mark.parametrize("name", ["status", "verify", "audit", "upgrade_layer2", "migrate_workload"])
def test_a_result_of_another_version_is_stated(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.json").write_text('{"format": 0, "networks": {"a": {}}, "hosts": {"b": {}}}')
    assert any(line.startswith(f"{name}.json is of another version") for line in data_of(tmp_path)["problems"])


def test_networks_have_the_colours_of_the_pictures() -> None:
    style = Path(page.__file__).with_name("page.css").read_text()
    found = re.findall(r"\.hue-(\d+) \{ --net: light-dark\((#\w+),", style)
    assert found == [(str(number), color) for number, color in enumerate([colors._DEFAULT, *colors._HUES])]
