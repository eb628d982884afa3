# SPDX-License-Identifier: Apache-2.0
"""Only what two plans differ in is read and written: the rows are those of a comparison of everything, bit for bit."""

from __future__ import annotations

import contextlib
import json
import random
import uuid

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.identity import KEY, NETWORK
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.identity import OWNER as OWNER_MARK
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.narrowing import narrowed
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import OvsdbError
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.schema import MARKS
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import Parent, Row, Scope, reconcile
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render import northbound as rendered
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.changed_networks import changed_networks
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import TABLES, render_northbound
from tests.pipeline import EVERYWHERE, labelled, layer2, layer3, namespace, stored, with_gateways, workload

from .network import DATABASE, OWNER, Counting, actions, changed, converge, rows

NODE, TENANTS, LABELS = "node1", ("red", "blue"), ("web", "db")
SETTINGS = {**EVERYWHERE, "cluster_domain": "cluster.local"}
EVERYTHING = Scope(frozenset(TABLES))
STEPS, OBJECTS = 25, 15
PORTS = [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}]
COMMON = (
    namespace("red") + layer2("red", "net", "10.1.0.0/24", "fd01::/64")
    + namespace("blue") + layer3("blue", "net", "10.2.0.0/16", 24)
    + "---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: out}\n"
    + "spec: {egressIPs: [192.0.2.100], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: red}}, "
    + "podSelector: {matchLabels: {app: web}}}\n"
    + workload("red", "out", "node1").replace("red}", "red, labels: {app: web}}")
)  # fmt: skip


class Tenants:
    """Workloads, Services and policies that are created, changed and deleted at random.

    So are the networks of the tenants `further`, each with a workload.
    """

    def __init__(self, seed: int, further: tuple[str, ...] = ()) -> None:
        self._random, self._snapshot = random.Random(seed), None
        self._further, self._there = further, set()
        self._objects: dict[tuple, dict] = {}
        for _each in range(OBJECTS):
            self.change()

    def change(self) -> None:
        """Change one object."""
        choice = self._random.choice
        if self._further and self._random.random() < 0.5:
            self._there ^= {choice(self._further)}
            return
        make = choice([self._workload, self._workload, self._service, self._policy])
        place = make, choice(TENANTS), choice("abc")
        if place in self._objects and self._random.random() < 0.3:
            del self._objects[place]
        else:
            api, kind, labels, spec = make(place[2])
            metadata = {"name": place[2], "namespace": place[1], "labels": labels}
            self._objects[place] = {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}

    def plan(self) -> dict:
        """The next plan; what was allocated before stays."""
        text = COMMON + "".join(f"---\n{json.dumps(found)}\n" for found in self._objects.values())
        for number, tenant in enumerate(self._further):
            text += namespace(tenant)
            if tenant in self._there:
                text += layer2(tenant, "net", f"10.{10 + number}.0.0/24") + workload(tenant, "w", NODE)
        self._snapshot = stored(text, self._snapshot, hosts=labelled(with_gateways("shared")), settings=SETTINGS)
        return build_plan(self._snapshot)

    def _workload(self, _name: str) -> tuple:
        choice = self._random.choice
        spec = {"node": choice(["node1", "node2"]), "ready": choice([True, False])}
        return "heddle.dev/v1", "Workload", {"app": choice(LABELS)}, spec

    def _service(self, name: str) -> tuple:
        choice = self._random.choice
        spec = {"selector": {"app": choice(LABELS)}, "ports": PORTS[: choice([1, 2])]}
        if name == "a":
            spec |= {"type": "NodePort", "externalTrafficPolicy": choice(["Cluster", "Local"])}
        elif name == "c":
            spec["clusterIP"] = "None"
        return "v1", "Service", {}, spec

    def _policy(self, _name: str) -> tuple:
        choice = self._random.choice
        peer = choice([{"podSelector": {"matchLabels": {"app": choice(LABELS)}}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}])
        spec = {
            "podSelector": choice([{}, {"matchLabels": {"app": choice(LABELS)}}]),
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [peer], "ports": [{"port": choice([80, 90])}]}][: choice([0, 1])],
        }
        return "networking.k8s.io/v1", "NetworkPolicy", {}, spec


def first_changes(client, before: dict, after: dict) -> tuple[tuple, int]:
    """Write what differs between two plans; the changes, and the transactions that could write."""
    networks = changed_networks(before, after, NODE)
    former, desired = (render_northbound(plan, NODE, networks) for plan in (before, after))
    counting = Counting(client)
    found, scope = narrowed(former, desired, TABLES)
    return reconcile(counting, DATABASE, found, owner=OWNER, scope=scope).changes, counting.writes


def everything(server, plan: dict, **options):
    """Compare all rows of a plan."""
    return converge(server, render_northbound(plan, NODE), scope=EVERYTHING, **options)


@pytest.mark.parametrize(("seed", "further"), [(0, ()), (1, ()), (2, ("green", "grey"))])
def test_rows_are_those_of_a_full_comparison(northbound, monkeypatch, seed, further):
    # So that no row that is common to all networks changes with their number.
    monkeypatch.setattr(rendered, "FEW_ROUTERS", 1)
    tenants = Tenants(seed, further)
    before = tenants.plan()
    everything(northbound, before)
    written = 0
    for _step in range(STEPS):
        tenants.change()
        after = tenants.plan()
        with northbound.client() as client:
            changes, transactions = first_changes(client, before, after)
        assert transactions == bool(changes)
        left = everything(northbound, after, write=False)
        assert not left.changed, (
            list(map(str, changes)),
            [(str(c), dict(c.before), dict(c.after)) for c in left.changes],
        )
        written += bool(changes)
        before = after
    assert written > STEPS / 3
    expect_rows_of(northbound, before)


def expect_rows_of(server, plan: dict) -> None:
    """The database is as one that a comparison of everything has filled."""
    found = server.dump()
    converge(server, [], scope=EVERYTHING)
    everything(server, plan)
    assert found == server.dump()


@pytest.mark.parametrize("seed", range(10, 12))
def test_a_full_comparison_repairs_what_is_not_as_expected(northbound, seed):
    """Rows that were lost, changed or left over, and a former plan that was never applied, are found afterwards."""
    chance, tenants = random.Random(seed), Tenants(seed)
    before = tenants.plan()
    everything(northbound, before)
    for step in range(STEPS):
        tenants.change()
        after = tenants.plan()
        damage(northbound, chance)
        with northbound.client() as client, contextlib.suppress(OvsdbError):
            first_changes(client, before, after)
        if step % 2:
            everything(northbound, after)
            assert not everything(northbound, after, write=False).changed
        # Else the run was cut off here, after the plan was stored.
        before = after
    everything(northbound, before)
    expect_rows_of(northbound, before)


def damage(server, chance: random.Random) -> None:
    """Delete or empty a row of Heddle's, and add one that is left over."""
    columns = {"Load_Balancer": "vips", "Address_Set": "addresses", "Port_Group": "ports"}
    table = chance.choice(list(columns))
    marks = ["map", [[OWNER_MARK, OWNER], [KEY, f"left {chance.random()}"], [NETWORK, "red_net"]]]
    server.transact({"op": "insert", "table": "Address_Set", "row": {"name": f"a{chance.random()}", MARKS: marks}})
    found = [row["_uuid"] for row in server.rows(table, "name") if not row["name"].startswith("a0.")]
    where = [["_uuid", "==", chance.choice(found or [["uuid", str(uuid.uuid4())]])]]
    if chance.random() < 0.5:
        server.transact({"op": "delete", "table": table, "where": where})
    else:
        empty = ["map", []] if table == "Load_Balancer" else ["set", []]
        server.transact({"op": "update", "table": table, "where": where, "row": {columns[table]: empty}})


def test_only_what_differs_is_read(northbound):
    converge(northbound, rows("A", "B"))
    desired = changed(rows("B"), "Load_Balancer", "B_lb", vips={"10.1.0.1:80": "10.0.0.2:8080"})
    found, scope = narrowed(rows("B"), desired, ("Load_Balancer",))
    assert [(row.table, row.key) for row in found] == [("Load_Balancer", "B_lb")]
    assert (scope.networks, scope.former, scope.only) == ({"B"}, (), {("Load_Balancer", "B_lb")})
    assert actions(converge(northbound, found, scope=scope)) == ["update Load_Balancer B_lb"]
    assert not converge(northbound, [*rows("A"), *desired[2:]], write=False).changed


def test_rows_that_come_and_go_are_joined_to_their_holders(northbound):
    converge(northbound, rows("A", "B"))
    parent = Parent("Logical_Switch", "B_switch", "acls")
    columns = {
        "priority": 1,
        "direction": "to-lport",
        "match": "ip4",
        "action": "drop",
        "external_ids": {"network": "B"},
    }
    more = [*rows("B"), Row("ACL", "B_more", columns, "B", parent)]
    for before, after, expected in ((rows("B"), more, ["create ACL B_more"]), (more, rows("B"), ["delete ACL B_more"])):
        found, scope = narrowed(before, after, TABLES)
        assert actions(converge(northbound, found, scope=scope)) == expected
        assert not converge(northbound, [*rows("A"), *after[2:]], write=False).changed


def test_equal_rows_need_nothing():
    found, scope = narrowed(rows("A", "B"), rows("A", "B"), TABLES)
    assert (found, scope.networks) == ([], frozenset())
