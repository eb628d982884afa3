# SPDX-License-Identifier: Apache-2.0
"""Every module runs by its own entry on a machine without anything of Heddle: what it does, and what it refuses.

`tests/unit/test_meta.py` demands that each module has a case. What modules do with real databases is in `tests/live/`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from tests.module_entry import ROOT, run_all_by_ansible, run_module
from tests.pipeline import layer2, namespace, plan_of, workload

# Named as nothing on a machine that runs these tests is.
NETWORK = namespace("nowhere") + layer2("nowhere", "net", "10.0.0.0/24", "fd00:10::/64")
PLAN = plan_of(NETWORK + workload("nowhere", "w1", "node1") + workload("nowhere", "w2", "node2"))
ON_NODE1 = {"document": pack(PLAN), "node": "node1"}
WITHOUT_STATE = "there is no state database yet; run heddle.ovn.site"
UNKNOWN = "there is no workload nowhere/w9 in the plan; write it as NAMESPACE/NAME"
ELSEWHERE = "node elsewhere is not in the plan; it has node1, node2, node3"


@dataclass(frozen=True)
class Case:
    """Arguments of a module, and of its result either some of the content or a part of the message.

    `SOCKET` and `TMP` in arguments stand for a socket without a listener and an empty directory.
    """

    module: str
    arguments: dict
    result: dict = field(default_factory=dict)
    message: str = ""

    @property
    def refused(self) -> bool:
        """Whether the module must fail."""
        return bool(self.message)


def done(module: str, arguments: dict, **result: object) -> Case:
    return Case(module, arguments, result)


def refused(module: str, arguments: dict, message: str) -> Case:
    return Case(module, arguments, message=message)


NOWHERE = {"socket": "SOCKET"}
NODES = {"node1": {"chassis": "c1", "encap_ips": ["198.18.1.11"], "addresses": ["198.18.2.11"]}}
CHASSIS = {"name": "node1", "encap_ips": ["198.18.1.11"], "datapath": "system"}
MOVE = {"workload": "nowhere/vm", "node": "node2"}
WATCH = {**ON_NODE1, "state": "started"}
SENDERS = {"nowhere_net": ["nowhere/w1", "nowhere/w2"]}
V1 = {
    "src": str(ROOT / "tests" / "unit" / "controllers" / "coil" / "v1_dump.json"),
    "dest": "TMP/coil_v1.yml",
    "nodes": ["node1", "node2"],
    "replaced": ["node1", "node2"],
}
CASES = [
    done("audit", ON_NODE1, changed=False, drift=[], causes=[], foreign=[], digest=PLAN["digest"]),
    refused("audit", {**ON_NODE1, "node": "elsewhere"}, ELSEWHERE),
    refused("audit", {**ON_NODE1, "document": "nonsense"}, "document: "),
    refused("audit", {"node": "node1", "plan": "/nonexistent"}, "no plan in /nonexistent"),
    done("chassis", {**CHASSIS, "owner": "test:chassis"}, changed=True),
    refused("chassis", {**CHASSIS, "datapath": "netdev"}, "give underlay_interface"),
    refused("chassis", {**CHASSIS, "datapath": "dpdk"}, "value of datapath must be one of: auto, system, netdev"),
    done("chassis_info", CHASSIS, changed=False, gateway={}),
    refused("chassis_info", {**CHASSIS, "datapath": "netdev"}, "give underlay_interface"),
    refused("certificate", {"state": "requested"}, "state is requested but all of the following are missing: node"),
    refused(
        "certificate", {"state": "requested", "node": "no/node", "directory": "TMP"}, "no/node is no name of a node"
    ),
    done("certificate", {"state": "installed", "directory": "TMP", "authority_certificate": "text"}, changed=True),
    done("coil_v1_manifests", V1, changed=True, waiting={}),
    refused("coil_v1_manifests", {**V1, "src": "/nonexistent"}, "1 problem(s), nothing was written\n/nonexistent: "),
    refused("coil_v1_manifests", {**V1, "nodes": ["node1"]}, "node node2 is not in the inventory"),
    done(
        "file_set", {"files": {"TMP/a/b": "text"}, "services": {"nonexistent": ["TMP/a/b"]}}, changed=True, outdated=[]
    ),
    refused("file_set", {"files": {"a": "text"}}, "files: a: not an absolute path"),
    done("gateway_announcement", {**ON_NODE1, "workload": "nowhere/w1"}, changed=False, announced=[]),
    refused("gateway_announcement", {**ON_NODE1, "workload": "nowhere/w9"}, UNKNOWN),
    refused("gateway_announcement", ON_NODE1, "missing required arguments: workload"),
    refused("guest_image", {"release": "6.12"}, "Unsupported parameters for"),
    refused("host_info", {**ON_NODE1, "node": "elsewhere"}, ELSEWHERE),
    refused(
        "host_record",
        {"role": "switch"},
        "value of role must be one of: node, state, bird, metrics, mesh, probes, dns_names, underlay, hypervisor",
    ),
    refused("host_removal", {}, "missing required arguments: node"),
    # Without an inventory; with one it is in tests/golden/inventory and tests/unit/playbooks.
    refused("inventory", {"allowed": []}, "group heddle_nodes: has no hosts; put the hosts that run workloads into it"),
    refused("inventory", {"packages": [{"name": "json"}]}, "missing required arguments: requirements"),
    refused("layer2_upgrade", {**NOWHERE, "step": "drain"}, WITHOUT_STATE),
    refused("layer2_upgrade", NOWHERE, "missing required arguments: step"),
    refused("layer2_upgrade", {**NOWHERE, "step": "done"}, "value of step must be one of: drain, change, return"),
    done("layer2_upgrade_info", NOWHERE, changed=False),
    refused("layer2_upgrade_info", {**NOWHERE, "serial": 0}, "serial: at least one node changes at a time"),
    refused("layer2_upgrade_info", {**NOWHERE, "topology": "none"}, "value of topology must be one of: transit-router"),
    done("manifest", {"files": [{"name": "a.yml", "text": NETWORK}], "nodes": ["node1"]}, changed=False, count=2),
    refused(
        "manifest", {"files": [{"name": "a.yml", "text": "kind: Pod"}], "nodes": ["node1"]}, "a.yml:1 (document 1)"
    ),
    refused("manifest", {"files": [], "nodes": ["node1"]}, "no manifest file was found"),
    refused(
        "manifest",
        {"files": [{"name": "b.yml", "text": NETWORK + workload("nowhere", "w", "mars")}], "nodes": ["node1"]},
        "mars",
    ),
    refused("kept_address", {"moved": {}, "hosts": {}, **NOWHERE}, WITHOUT_STATE),
    refused("kept_address", {"moved": {}, **NOWHERE}, "missing required arguments: hosts"),
    refused("moved_address", {"document": "", "hosts": [], **NOWHERE}, WITHOUT_STATE),
    refused("moved_address", {"document": "", **NOWHERE}, "missing required arguments: hosts"),
    refused("migration", {**MOVE, **NOWHERE, "state": "started"}, WITHOUT_STATE),
    refused("migration", {**MOVE, **NOWHERE, "state": "moved"}, "value of state must be one of: started, finished"),
    done(
        "migration_watch", {**ON_NODE1, "workload": "nowhere/w1", "state": "started"}, changed=False, peer="nowhere/w2"
    ),
    refused("migration_watch", {**ON_NODE1, "workload": "nowhere/w9", "state": "started"}, UNKNOWN),
    refused("underlay_probe", {"state": "measured"}, "missing required arguments: interface, node, peers"),
    refused(
        "underlay_probe",
        {"state": "started", "node": "node1", "peers": {"node2": ["198.18.1.12"]}, "interface": "eth1"},
        "peers has no node1",
    ),
    done("probe_info", {"node": "node1", "plan": "/nonexistent"}, changed=False, readiness={}),
    refused("probe_info", {}, "missing required arguments: node"),
    done("reachability", {**ON_NODE1, "state": "started"}),
    refused("reachability", {**ON_NODE1, "state": "probed", "node": "elsewhere"}, ELSEWHERE),
    refused(
        "reachability", {**ON_NODE1, "state": "confirmed"}, "state is confirmed but all of the following are missing"
    ),
    refused("reachability", {**ON_NODE1, "state": "asked"}, "value of state must be one of: started, probed"),
    done("readiness", {"hosts": {}, **NOWHERE}, changed=False, revision=0),
    refused("readiness", NOWHERE, "missing required arguments: hosts"),
    done("report", {"directory": "TMP/report", "files": {"a.json": "{}"}}, changed=True, written=["a.json"]),
    refused("report", {"directory": "TMP", "files": {"../a": ""}}, "a name without a directory is needed"),
    done("resource", {"resources": pack([]), "nodes": NODES, **NOWHERE}, changed=True, revision=0, kinds=[]),
    refused("resource", {"resources": "nonsense", "nodes": NODES, **NOWHERE}, "not a packed document"),
    refused("resource_info", NOWHERE, "Is the service running? The install playbook starts it."),
    refused("state_backup", {"document": "nonsense", "path": "TMP/backup.json"}, "TMP/backup.json: "),
    refused("state_backup_info", NOWHERE, "Is the service running? The install playbook starts it."),
    refused("state_restoration", {"path": "TMP/backup.json", **NOWHERE}, "no backup in TMP/backup.json: "),
    done(
        "traffic",
        {**ON_NODE1, "state": "started"},
        changed=True,
        workloads={"nowhere_net": ["nowhere/w1", "nowhere/w2"]},
    ),
    refused("traffic", {**ON_NODE1, "state": "moved"}, "value of state must be one of: started, collected, stopped"),
    done("virtual_machine", {"workload": "nowhere/vm", "state": "receiving", "address": "::1"}, changed=True),
    refused("virtual_machine", {"workload": "nowhere/vm", "state": "receiving"}, "are missing: address"),
    refused("virtual_machine", {"workload": "nowhere/vm", "state": "sent", "address": "::1"}, "are missing: port, key"),
    done("virtual_machine_info", {"workload": "nowhere/vm"}, changed=False, status="absent"),
    refused("virtual_machine_info", {"workload": "vm"}, "NAMESPACE/NAME"),
    done("zone", {**ON_NODE1, "plan": "TMP/plan.json"}, changed=True),
    refused("zone", {**ON_NODE1, "parts": ["kernel"]}, "value of parts must be one or more of: topology, gateway"),
    refused("zone", {**ON_NODE1, "node": "elsewhere"}, ELSEWHERE),
]


# An action plugin of a module's name runs in the place of the module.
ACTIONS = {
    path.stem: path.read_text()
    for path in (ROOT / "collections/ansible_collections/heddle/ovn/plugins/action").glob("*.py")
}
# Those that do no more than others do: Ansible takes a second to pack each one's module, and runs one of them for all.
ALIKE = {name for name, text in ACTIONS.items() if "def " not in text} - {"audit"}


def filled(value, tmp: Path):
    text = json.dumps(value).replace("SOCKET", f"unix:{tmp}/heddle.sock").replace("TMP", str(tmp))
    return json.loads(text)


def case_id(case: Case) -> str:
    return f"{case.module}-{'refused' if case.refused else 'done'}"


def assert_as_demanded(case: Case, found: dict, tmp: Path) -> None:
    """Compare a result with the case; `tmp` is the directory that stands for TMP."""
    if case.refused:
        assert found["failed"], case_id(case)
        assert filled(case.message, tmp) in found["msg"]
    else:
        assert not found.get("failed"), f"{case_id(case)}: {found['msg']}"
        assert {key: found[key] for key in case.result} == case.result, case_id(case)
    assert not [path for path in tmp.rglob("*") if path.is_file()], f"{case_id(case)}: check mode wrote files"


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.module not in ACTIONS or case.module in ALIKE], ids=case_id
)
def test_a_module_does_what_it_is_asked_or_says_why_not(case: Case, tmp_path: Path) -> None:
    tmp = tmp_path / "t"
    tmp.mkdir()
    assert_as_demanded(case, run_module(case.module, tmp_path, **filled(case.arguments, tmp)), tmp)


@pytest.mark.parametrize(
    "modules", [ACTIONS.keys() - ALIKE, pytest.param(ALIKE, marks=pytest.mark.long)], ids=["each kind", "alike"]
)
def test_an_action_does_what_it_is_asked_or_says_why_not(tmp_path: Path, modules: set[str]) -> None:
    """One play runs all of them."""
    cases = [case for case in CASES if case.module in modules]
    calls = [(case.module, filled(case.arguments, tmp_path)) for case in cases]
    for case, found in zip(cases, run_all_by_ansible(calls), strict=True):
        assert_as_demanded(case, found, tmp_path)
