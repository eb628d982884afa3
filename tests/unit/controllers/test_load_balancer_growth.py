# SPDX-License-Identifier: Apache-2.0
"""What Services that are reached from beyond their network cost: hosts are looked at once, not for each Service."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.allocation.address_assignment import (
    Candidate,
    assigned_hosts,
)
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.network.networks import networks
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.services import load_balancers, service_status
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.services.load_balancers import (
    assign_announcers,
    service_nodes,
)
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot
from tests.pipeline import layer2, layer3, namespace, stored, with_gateways, workload

HOSTS = with_gateways("shared")
TENANTS = (
    namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "a", "node2")
    + namespace("blue") + layer3("blue", "net", "10.9.0.0/25", 26) + workload("blue", "a", "node1")
)  # fmt: skip
POOL = (
    "---\napiVersion: heddle.dev/v1\nkind: LoadBalancerPool\nmetadata: {name: pool}\n"
    "spec: {subnets: [192.0.2.192/26]}\n"
)


def services(count: int, spec: str = "type: LoadBalancer") -> str:
    return "".join(
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: web{number}, namespace: {name}}}\n"
        f"spec: {{selector: {{}}, ports: [{{port: 80}}], {spec}}}\n"
        for number in range(count)
        for name in ("red", "blue")
    )


def state(count: int, spec: str = "type: LoadBalancer", pool: str = POOL) -> Snapshot:
    return stored(TENANTS + pool + services(count, spec), hosts=HOSTS)


def test_the_nodes_that_can_have_a_network_are_found_once_for_all_its_services(monkeypatch):
    asked = []
    good = load_balancers.nodes_with_subnets
    monkeypatch.setattr(
        load_balancers, "nodes_with_subnets", lambda *given: asked.append(given[1].name) or good(*given)
    )
    snapshot = state(4)
    asked.clear()
    assign_announcers(snapshot)
    assert sorted(asked) == ["blue_net", "red_net"]
    held = {
        name: {node for one in snapshot.of_kind("Service") if one.namespace == name
               for node in load_balancers.announcers(one).values()}
        for name in ("red", "blue")
    }  # fmt: skip
    # The subnet of the Layer3 network has room for two hosts.
    assert held == {"red": {"node1", "node2", "node3"}, "blue": {"node1", "node2"}}


class Permitted(frozenset):
    """Hosts of a Service that count the looks at them."""

    looks = 0

    def __contains__(self, name):
        Permitted.looks += 1
        return super().__contains__(name)


def test_an_address_that_stays_is_compared_with_its_host_only():
    def looks(hosts: int) -> int:
        names = [f"node{number}" for number in range(hosts)]
        wanted = {f"192.0.2.{number}": Permitted(names) for number in range(4)}
        candidates = [Candidate(name, ("192.0.2.0/24",)) for name in names]
        before = dict.fromkeys(wanted, "node1")
        Permitted.looks = 0
        assert assigned_hosts(wanted, candidates, before) == before
        return Permitted.looks

    assert looks(2) == looks(20)


def test_the_hosts_that_announce_are_found_once_for_all_services_without_one(monkeypatch):
    found = []
    for module in (load_balancers, service_status):
        good = getattr(module, "announcing_hosts", lambda _snapshot: [])
        monkeypatch.setattr(
            module, "announcing_hosts", lambda given, good=good: found.append(given) or good(given), raising=False
        )

    def count(number: int) -> int:
        snapshot = state(number, pool=POOL.replace("192.0.2.192", "203.0.113.192"))
        found.clear()
        service_status.update_services(snapshot, "2026-01-01T00:00:00Z")
        reasons = {condition(one, "Announced")["reason"] for one in snapshot.of_kind("Service")}
        assert reasons == {"NoMatchingNodeFound"}
        return len(found)

    assert count(2) == count(6) == 1


def test_a_network_that_is_entered_by_all_nodes_has_them_once():
    def entered(count: int, spec: str) -> dict[str, list[list[str]]]:
        snapshot = state(count, spec)
        found: dict[str, list[list[str]]] = {}
        for name, nodes in service_nodes(snapshot, networks(snapshot)):
            found.setdefault(name, []).append(nodes)
        return found

    assert entered(3, "type: NodePort") == {"red_net": [[*HOSTS]], "blue_net": [[*HOSTS]]}
    local = entered(2, "type: NodePort, externalTrafficPolicy: Local")
    assert local == {"red_net": [[], []], "blue_net": [[], []]}
