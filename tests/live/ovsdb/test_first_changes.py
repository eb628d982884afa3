# SPDX-License-Identifier: Apache-2.0
"""What differs from the former plan is written first; the comparison of all rows follows, whatever became of it."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import (
    first_changes,
    follow_ups,
    northd_recompute,
    service_connections,
    topology,
)
from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import OvsdbError
from tests.pipeline import EVERYWHERE, layer2, namespace, plan_of, with_gateways

from .network import actions

BALANCER = "update Load_Balancer red_net_Service_red/web_TCP_cluster"
SERVICE = (
    "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: red}\n"
    "spec: {selector: {app: web}, ports: [{port: 80}]}\n"
)


def plan(*, ready: bool, protocol: str = "TCP") -> dict:
    text = "".join(namespace(one) + layer2(one, "net", "10.1.0.0/24") for one in ("red", "blue"))
    text += SERVICE.replace("port: 80", f"port: 80, protocol: {protocol}")
    for name, is_ready in (("a", True), ("b", ready)):
        text += (
            "---\napiVersion: heddle.dev/v1\nkind: Workload\n"
            f"metadata: {{name: {name}, namespace: red, labels: {{app: web}}}}\n"
            f"spec: {{node: node1, ready: {str(is_ready).lower()}}}\n"
        )
    return plan_of(text, hosts=with_gateways("shared"), settings=EVERYWHERE)


class Zone:
    """node1's databases."""

    def __init__(self, northbound) -> None:
        self.northbound = northbound

    def apply(self, wanted: dict, former: dict | None, timeout: int = 0):
        return topology.apply_topology(NodeContext("node1", "", write=True, timeout=timeout, former=former), wanted)

    def endpoints(self) -> list[str]:
        rows = self.northbound.rows("Load_Balancer", "name", "vips")
        return [row["vips"][1][0][1] for row in rows if row["name"] == BALANCER.split()[-1]]


@pytest.fixture
def zone(monkeypatch, folder, northbound, southbound, vswitch) -> Zone:
    monkeypatch.setattr(topology, "SYSTEM_ID_FILE", str(folder / "system-id"))
    for name, server in (("NORTHBOUND", northbound), ("SOUTHBOUND", southbound), ("VSWITCH", vswitch)):
        monkeypatch.setattr(topology, f"{name}_REMOTE", server.remote)
    northbound.transact({"op": "insert", "table": "NB_Global", "row": {}})
    vswitch.transact({"op": "insert", "table": "Open_vSwitch", "row": {}})
    found = Zone(northbound)
    found.apply(plan(ready=True), None)
    return found


def test_endpoint_comes_before_drift_elsewhere(zone):
    zone.northbound.transact(
        {"op": "update", "table": "Logical_Switch", "where": [["name", "==", "blue_net_ovn_layer2_switch"]],
         "row": {"other_config": ["map", []]}},
    )  # fmt: skip
    before = zone.northbound.rows("NB_Global", "nb_cfg")[0]["nb_cfg"]
    outcome = zone.apply(plan(ready=False), plan(ready=True))
    drift = "update Logical_Switch blue_net_ovn_layer2_switch"
    assert [f"{one.action} {one.kind} {one.name}" for one in outcome.changes] == [BALANCER, drift]
    # Each of the two was announced to the daemons with the transaction that wrote it.
    assert zone.northbound.rows("NB_Global", "nb_cfg")[0]["nb_cfg"] == before + 2
    assert not zone.apply(plan(ready=False), plan(ready=True)).changed


@pytest.mark.parametrize("failure", ["refused", "damaged", "never applied"])
def test_comparison_does_not_depend_on_it(zone, monkeypatch, failure):
    former = plan(ready=True)
    if failure == "refused":

        def refuse(*_words, **_more):
            raise OvsdbError("OVN_Northbound", "constraint violation", "")

        monkeypatch.setattr(first_changes, "reconcile", refuse)
    elif failure == "damaged":
        former["workloads"] = {"red/a": {}}
        del former["networks"]["red_net"]["subnets"]
    else:
        # A run that was cut off had stored the plan.
        former = plan(ready=False)
    two = zone.endpoints()[0]
    assert actions(zone.apply(plan(ready=False), former)) == [BALANCER]
    assert zone.endpoints()[0] != two
    assert not zone.apply(plan(ready=False), None).changed


def test_check_mode_writes_nothing(zone):
    context = NodeContext("node1", "", write=False, former=plan(ready=True))
    before = zone.northbound.dump()
    assert actions(topology.apply_topology(context, plan(ready=False))) == [BALANCER]
    assert zone.northbound.dump() == before


def test_after_a_run_that_was_cut_off_northd_computes_everything(zone, monkeypatch):
    """What that run wrote is there, so the next one does not see that northd needs it (`northd_recompute.py`)."""
    asked, pending = [], Path(northd_recompute.PENDING_FILE)
    monkeypatch.setattr(northd_recompute, "recompute", lambda: asked.append("recompute") or Outcome())
    assert not pending.exists()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(topology, "apply_northbound", mock.Mock(side_effect=KeyboardInterrupt))
        zone.apply(plan(ready=False), plan(ready=True))
    assert pending.exists()
    for _time in range(2):
        assert not zone.apply(plan(ready=False), plan(ready=False)).changed
        assert asked == ["recompute"]
        assert not pending.exists()


def test_where_northd_did_not_compute_everything_the_next_run_asks_again(zone, monkeypatch):
    pending = Path(northd_recompute.PENDING_FILE)
    northd_recompute.begin()
    for notes in (("northd did not",), ()):
        monkeypatch.setattr(northd_recompute, "recompute", lambda notes=notes: Outcome(notes=notes))
        assert zone.apply(plan(ready=True), plan(ready=True)).notes == notes
        assert pending.exists() == bool(notes)


@pytest.mark.parametrize("written_first", [True, False])
def test_connections_that_a_killed_run_has_not_ended_are_ended_by_the_next_one(zone, monkeypatch, written_first):
    """Load balancers lack the endpoint already, so the next run does not see that one is gone."""
    ended, notes = [], Path(follow_ups.FILE)
    before, after = plan(ready=True, protocol="UDP"), plan(ready=False, protocol="UDP")
    zone.apply(before, None)
    monkeypatch.setattr(topology, "caught_up", lambda *_words: True)
    monkeypatch.setattr(service_connections, "call", lambda *_words: None)
    monkeypatch.setattr(service_connections, "end_connections", lambda _bridge, found: ended.extend(found))
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(topology, "synchronise", mock.Mock(side_effect=KeyboardInterrupt))
        zone.apply(after, before if written_first else None, timeout=1)
    assert notes.exists()
    assert not ended
    assert not zone.apply(after, after, timeout=1).changed
    [one] = ended
    assert (one.port, one.target_port) == (80, 80)
    assert not notes.exists()
    zone.apply(after, after, timeout=1)
    assert ended == [one]
