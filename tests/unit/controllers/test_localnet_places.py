# SPDX-License-Identifier: Apache-2.0
"""Localnet networks: which hosts can run their workloads, and which addresses of the provider network they leave."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.layer2_steps import drain
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.workload.move import MoveRefused, begin_move
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.store.layer2_version import TRANSIT_ROUTER
from tests.pipeline import decide, labelled, layer2, namespace, stored, with_gateways, workload


def localnet(physical: str, *subnets: str, more: str = "") -> str:
    return (
        "---\napiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {name: plant}\n"
        "spec: {namespaceSelector: {}, network: {topology: Localnet, localnet: {role: Secondary, "
        f"physicalNetworkName: {physical}, subnets: [{', '.join(subnets)}]{more}}}}}}}\n"
    )


def connected(*names: str) -> dict:
    """Return hosts of which these have a mapping for `factory`."""
    hosts = with_gateways("shared")
    return {
        name: {
            **host,
            "gateway": {**host["gateway"], "physical_networks": {"factory": "br-f"} if name in names else {}},
        }
        for name, host in hosts.items()
    }


def cluster(kind: str, *names: str):
    text = namespace("red") + layer2("red", "net", "10.0.0.0/24") + localnet("factory", "10.66.0.0/24")
    text += workload("red", "w", "node1", "plant").replace("node1", f"node1, kind: {kind}")
    after, problems = decide(text, hosts=connected(*names), settings={"layer2_topology": "gateway-router"})
    assert not problems
    after.revision = 1
    return after


def test_a_virtual_machine_does_not_migrate_to_a_host_without_the_physical_network():
    """The next run would refuse all manifests, since it runs and would have to stop."""
    before = cluster("vm", "node1", "node3")
    with pytest.raises(MoveRefused, match="node node2 has no mapping for the physical network factory"):
        begin_move(before, "red/w", "node2")
    after, move = begin_move(before, "red/w", "node3")
    assert (after is not before, move["to"]) == (True, "node3")


def test_a_host_is_drained_to_one_that_has_the_physical_network():
    _after, [move], blockers = drain(cluster("netns", "node1", "node3"), ["node1"], TRANSIT_ROUTER)
    assert (move.target, blockers) == ("node3", [])
    _after, moves, [blocker] = drain(cluster("netns", "node1"), ["node1"], TRANSIT_ROUTER)
    assert not moves
    assert "no other node that could take it" in str(blocker)


EGRESS_IP = (
    "---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: out}\n"
    "spec: {egressIPs: [192.0.2.3], namespaceSelector: {matchLabels: {some: label}}}\n"
)
POOL = (
    "---\napiVersion: heddle.dev/v1\nkind: LoadBalancerPool\nmetadata: {name: p}\n"
    "spec: {subnets: [192.0.2.4/30]}\n"
)  # fmt: skip


def addresses(text: str, *, before=None, vlan: int | None = None, count: int = 6) -> list[str]:
    many = "".join(workload("red", f"w{number}", "node1", "plant") for number in range(count))
    hosts = labelled(with_gateways("shared", vlan=vlan) if vlan else with_gateways("shared"))
    plan = build_plan(stored(namespace("red", primary=False) + text + many, before, hosts=hosts))
    found = [plan["workloads"][f"red/w{number}"]["interfaces"][1]["addresses"] for number in range(count)]
    return [address.partition("/")[0] for [address] in found]


def test_workloads_do_not_get_what_others_of_the_provider_network_have():
    """192.0.2.1 is the default gateway, 192.0.2.11 to .13 are hosts."""
    network = localnet("physnet", "192.0.2.0/24")
    found = addresses(network + EGRESS_IP + POOL)
    assert found == [f"192.0.2.{number}" for number in (2, 8, 9, 10, 14, 15)]
    # On another segment these addresses are free.
    tagged = localnet("physnet", "192.0.2.0/24", more=", vlan: {mode: Access, access: {id: 30}}")
    assert addresses(tagged + EGRESS_IP + POOL) == [f"192.0.2.{number}" for number in range(1, 7)]
    assert addresses(tagged, vlan=30)[0] == "192.0.2.2"


def test_a_workload_keeps_an_address_that_is_taken_later():
    text = (
        namespace("red", primary=False) + localnet("physnet", "192.0.2.0/24") + workload("red", "w0", "node1", "plant")
    )
    before = stored(text, hosts=with_gateways("shared"))
    assert addresses(localnet("physnet", "192.0.2.0/24"), count=1) == ["192.0.2.2"]
    later = localnet("physnet", "192.0.2.0/24") + EGRESS_IP.replace("192.0.2.3", "192.0.2.2")
    assert addresses(later, before=before, count=2) == ["192.0.2.2", "192.0.2.3"]
