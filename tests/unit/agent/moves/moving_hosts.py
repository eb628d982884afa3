# SPDX-License-Identifier: Apache-2.0
"""Hosts whose plans are files, between which an address of an EgressIP moves, and what may leave them."""

from __future__ import annotations

import contextlib
import json

from ansible_collections.heddle.ovn.plugins.module_utils.agent import node_gateway, topology, zone
from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.agent.moves import notice_process, outcome, steps
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.address_holders import update_holders
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.egress.move_notices import Notice
from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import labelled, layer2, layer3, namespace, plan_of, stored, with_gateways, workload

NETWORKS = {
    "Layer2": layer2("red", "net", "10.1.0.0/24"),
    "Layer3": layer3("red", "net", "10.1.0.0/16", 24),
    "default": "",
}
MOVED = {"192.0.2.100": "node1"}
STEPS = (steps.prepare_addresses, steps.release_addresses, steps.claim_addresses)


def egress_plan(*labels: str, network: str = "Layer2") -> dict:
    """A plan with an EgressIP that one of some hosts holds, and a workload on each host."""
    return plan_of(_text(network), hosts=_hosts(*labels))


def kept_plan(network: str) -> dict:
    """The plan after node1 has lost its label to node2, and has not given its address up."""
    before = stored(_text(network), hosts=_hosts("node1"))
    after = stored(_text(network), before, hosts=_hosts("node2"))
    update_holders(after, after, "2026-01-02T00:00:00Z", kept=MOVED)
    return build_plan(after)


def _hosts(*labels: str) -> dict:
    hosts = labelled(with_gateways("shared"))
    return {name: host if name in labels else {**host, "labels": {}} for name, host in hosts.items()}


def _text(network: str) -> str:
    text = namespace("red", primary=network != "default") + NETWORKS[network]
    text += "".join(workload("red", f"on-{node}", node) for node in ("node1", "node2", "node3"))
    text += "---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: out}\n"
    text += "spec: {egressIPs: [192.0.2.100], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: red}}}\n"
    return text


class Hosts:
    """Hosts with plans in files, where what writes to a host is replaced: `seen` has the writers and their plans."""

    def __init__(self, monkeypatch, tmp_path, before: dict) -> None:
        self.seen: list[tuple[str, dict]] = []
        self.notices: list[Notice] = []
        # What a host receives when it gives addresses up.
        self.ready: set[Notice] = set()
        self._path = tmp_path
        for node in ("node1", "node2", "node3"):
            self.keep(node, before)

        def recording(name, plan_at=1, result=Outcome):
            def called(*words):
                self.seen.append((name, words[plan_at]))
                return result()

            return called

        for name in zone.PARTS:
            monkeypatch.setitem(zone.PARTS, name, recording(name))
        monkeypatch.setattr(node_gateway, "release_addresses", recording("release", 2))
        monkeypatch.setattr(node_gateway, "note_applied", lambda _plan: None)
        for module in (zone, node_gateway):
            monkeypatch.setattr(module, "claim_addresses", lambda *words: self._claim(*words))
        for module in (steps, notice_process):
            monkeypatch.setattr(module, "send_notice", lambda _plan, notice: self.notices.append(notice))
        monkeypatch.setattr(steps, "NoticeSocket", lambda *_words: _Answers(self.ready))
        monkeypatch.setattr(steps, "_ANSWER_SECONDS", 0.01)
        monkeypatch.setattr(topology, "is_programmed", lambda *_words: True)
        monkeypatch.setattr(notice_process, "only_writer", lambda *, write: contextlib.nullcontext())
        monkeypatch.setattr(outcome, "FILE", str(tmp_path / "moved.json"))
        monkeypatch.setattr(zone, "apply_firewall", lambda *_words, **_options: Outcome())
        monkeypatch.setattr(zone, "add_egress_flows", lambda *_words: Outcome())
        monkeypatch.setattr(topology, "apply_first_changes", recording("rows"))
        monkeypatch.setattr(topology, "apply_topology", recording("topology"))
        monkeypatch.setattr(topology, "await_programmed", recording("wait"))

    def _claim(self, _context, _former, plan, addresses):
        if addresses:
            self.seen.append(("claim", plan))
        return Outcome()

    def keep(self, node: str, plan: dict) -> None:
        (self._path / f"{node}.json").write_text(json.dumps(plan))

    def context(self, node: str) -> NodeContext:
        return NodeContext(node, str(self._path / f"{node}.json"), write=True)

    def stored(self, node: str) -> dict:
        return json.loads((self._path / f"{node}.json").read_text())

    def take(self, step, node: str, plan: dict, moved=None) -> list[str]:
        """Let a host take a step; return what it wrote, in its order, all by the plan that it has afterwards."""
        self.seen.clear()
        step(self.context(node), plan, MOVED if moved is None else moved)
        stored = self.stored(node)
        assert all(plan == stored for _name, plan in self.seen)
        return [name for name, _plan in self.seen]

    def apply(self, node: str, plan: dict) -> list[str]:
        self.seen.clear()
        zone.apply_zone(self.context(node), plan, list(zone.PARTS))
        return [name for name, _plan in self.seen]


class _Answers(contextlib.nullcontext):
    """What arrives at once at a host that listens."""

    def __init__(self, ready: set[Notice]) -> None:
        super().__init__(self)
        self._ready = ready

    def read(self, _timeout: float) -> set[Notice]:
        return self._ready


def sends_with(plan: dict, node: str, address: str = "192.0.2.100") -> bool:
    """Whether the provider bridge of a node lets packets leave with the address."""
    [mark] = [entry["mark"] for entry in plan["egress_ips"].values()]
    flows = render_bridge_flows(plan, node)
    if "red_net" in plan["networks"]:
        found = [flow for flow in flows if f"pkt_mark={mark:#x}" in flow.match]
        assert len({flow.priority for flow in found}) == len(found)
        first = max(found, key=lambda flow: flow.priority, default=None)
        return bool(first) and f"nat(src={address})" in first.actions
    dropped = [flow for flow in flows if address in flow.match]
    assert {flow.actions for flow in dropped} <= {"drop"}
    # The packets, and what the router says of the address.
    assert len(dropped) in (0, 2)
    return not dropped and any(row.table == "NAT" and row.columns["external_ip"] == address for row in rows(plan, node))


def rows(plan: dict, node: str) -> list:
    return [row for row in render_northbound(plan, node) if row.table in ("NAT", "Logical_Router_Policy")]


def leads_to(plan: dict, node: str) -> set[str]:
    """The next hops of the workload of a node that has the EgressIP."""
    return {
        hop
        for row in rows(plan, node)
        if row.table == "Logical_Router_Policy" and row.columns["priority"] == 100
        for hop in row.columns["nexthops"]
    }


def takes(plan: dict, node: str) -> bool:
    """Whether the gateway router of a node marks, or translates, what workloads of all nodes send."""
    marks = [
        row for row in rows(plan, node)
        if (row.table, row.columns.get("priority")) == ("Logical_Router_Policy", 95)
        or (row.table == "NAT" and row.columns["external_ip"] == "192.0.2.100")
    ]  # fmt: skip
    assert len(marks) in (0, 3)
    return bool(marks)
