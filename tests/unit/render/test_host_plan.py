# SPDX-License-Identifier: Apache-2.0
"""A host renders its part of the plan as the whole, and nothing in it changes when something does elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.plan_digest import plan_digest
from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import unpack
from ansible_collections.heddle.ovn.plugins.module_utils.operations import plans
from ansible_collections.heddle.ovn.plugins.module_utils.operations.plans import Plans
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.plan.address_holders import moved_addresses
from ansible_collections.heddle.ovn.plugins.module_utils.render.common import handover
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import (
    HostPlans,
    host_plan,
    merged,
)
from tests.host_plans import check_host_plans, check_part
from tests.pipeline import (
    EVERYWHERE,
    decide,
    labelled,
    layer2,
    namespace,
    stored,
    upgrade_stage,
    with_gateways,
    with_nics,
    workload,
)

HEDDLE = Path(__file__).parents[3]


# Hosts and settings: with and without a provider network, in both gateway modes, and with networks everywhere.
WITH_NICS = with_nics(labelled(with_gateways("shared")))
CLUSTERS = ((WITH_NICS, {}), (labelled(with_gateways("local")), {}), (WITH_NICS, EVERYWHERE), (None, {}))


def plans_of(text: str, clusters: tuple) -> list[dict]:
    """Return the plans of manifests, without those that are refused."""
    found = []
    for hosts, settings in clusters:
        after, problems = decide(text, hosts=hosts, settings=settings)
        if not problems:
            found.append(build_plan(after))
    return found


CASES = {
    path.stem: path.read_text()
    for folder in ("tests/golden/host", "tests/golden/northbound")
    for path in sorted((HEDDLE / folder).glob("*.yml"))
}
LAB = "---\n".join(path.read_text() for path in sorted((HEDDLE / "inventories/lab/manifests").glob("*.yml")))


def half(number: int, one: int) -> tuple:
    """Two of the clusters: neighbouring cases, which are much alike, have different ones."""
    return CLUSTERS[(number + one) % 2 :: 2]


@pytest.mark.parametrize(
    ("text", "clusters"),
    [
        pytest.param(text, half(number, one), marks=pytest.mark.long if one else (), id=f"{name}-{one}")
        for number, (name, text) in enumerate({**CASES, "lab": LAB}.items())
        for one in (0, 1)
    ],
)
def test_part_is_rendered_as_the_whole_plan(text, clusters):
    found = plans_of(text, clusters)
    assert found
    for plan in found:
        check_host_plans(plan)


@pytest.mark.parametrize("upgraded", [(), ("node2",), ("node1", "node2", "node3")])
def test_part_in_the_upgrade_of_the_layer2_topology(upgraded):
    check_host_plans(upgrade_stage(LAB, *upgraded, hosts=labelled(with_gateways("shared"))))


def test_part_with_address_pools():
    hosts = with_gateways("shared")
    pool = (
        "---\napiVersion: coil.cybozu.com/v2\nkind: AddressPool\nmetadata: {name: p}\n"
        "spec: {subnets: [{ipv4: 10.2.0.0/24, ipv6: 'fd02::/120'}]}\n"
        + namespace("routed", primary=False).rstrip()
        + "\n  annotations: {coil.cybozu.com/pool: p}\n"
    )
    egress = (
        "---\napiVersion: coil.cybozu.com/v2\nkind: Egress\nmetadata: {name: nat, namespace: routed}\n"
        "spec: {destinations: [198.18.0.0/15], template: {spec: {nodeSelector: {kubernetes.io/hostname: node3}}}}\n"
    )
    text = pool + egress + TENANTS + "".join(workload("routed", f"w-{node}", node) for node in hosts)
    settings = {"coil": {"routers": [{"address": "192.0.2.1", "nodes": ["node1", "node2"]}]}}
    plan = build_plan(stored(text, hosts=hosts, settings=settings))
    assert plan["coil"]["workloads"] and plan["egress"]["workloads"]
    check_host_plans(plan)


# Two namespaces share a secondary network; each has a primary network of its own, on the host of its workload only.
SHARED = """
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: san}
spec:
  namespaceSelector: {}
  network:
    topology: TOPOLOGY
    SPEC
---
apiVersion: k8s.cni.cncf.io/v1beta1
kind: MultiNetworkPolicy
metadata: {name: web, namespace: red, annotations: {k8s.v1.cni.cncf.io/policy-for: san}}
spec:
  podSelector: {}
  policyTypes: [Ingress, Egress]
  ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: blue}}}]}]
  egress: [{ports: [{port: web}]}]
"""


@pytest.mark.parametrize(
    ("topology", "spec"),
    [
        ("Layer3", "layer3: {role: Secondary, subnets: [{cidr: 10.60.0.0/16}]}"),
        ("Localnet", "localnet: {role: Secondary, physicalNetworkName: physnet, subnets: [10.60.0.0/24]}"),
    ],
)
def test_part_has_the_peers_of_policies_on_a_secondary_network(topology, spec):
    attached = "annotations: {k8s.v1.cni.cncf.io/networks: san}"
    text = SHARED.replace("TOPOLOGY", topology).replace("SPEC", spec) + "".join(
        namespace(name)
        + layer2(name, "net", "10.0.0.0/24")
        + f"---\napiVersion: heddle.dev/v1\nkind: Workload\nmetadata: {{name: a, namespace: {name}, {attached}}}\n"
        f"spec: {{node: {node}, ports: [{{name: web, containerPort: 80}}]}}\n"
        for name, node in (("red", "node1"), ("blue", "node2"))
    )
    plan = build_plan(stored(text))
    [policies] = plan["policies"].values()
    assert ["blue/a"] in policies["selections"].values() and any(policies["ports"].values())
    check_host_plans(plan)


TENANTS = "".join(
    namespace(name) + layer2(name, "net", "10.0.0.0/24") + workload(name, "a", node)
    for name, node in (("red", "node1"), ("blue", "node2"))
)
SERVICE = (
    "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: blue}\n"
    "spec: {selector: {}, ports: [{port: 80}]}\n"
)
POLICY = (
    "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: blue}\n"
    "spec: {podSelector: {}, ingress: []}\n"
)
EGRESS_IP = (
    "---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: e}\nspec: {egressIPs: [192.0.2.200], "
    "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: blue}}}\n"
)


@pytest.mark.parametrize(
    ("more", "changed"),
    [
        (workload("blue", "b", "node2"), {"node2"}),
        # The network of the workload is on its node then, with ports of the others; and on theirs with a port of it.
        (workload("blue", "b", "node3"), {"node2", "node3"}),
        (namespace("green") + layer2("green", "net", "10.0.0.0/24"), set()),
        (namespace("green") + layer2("green", "net", "10.0.0.0/24") + workload("green", "a", "node1"), {"node1"}),
        (SERVICE, {"node2"}),
        (POLICY, {"node2"}),
        (namespace("plain", primary=False) + workload("plain", "a", "node1"), {"node1", "node2", "node3"}),
    ],
    ids=[
        "workload",
        "workload on another node",
        "network without workloads",
        "network",
        "Service",
        "policy",
        "default",
    ],
)
def test_only_hosts_that_render_a_change_have_another_plan(more, changed):
    before = stored(TENANTS)
    digests = HostPlans(build_plan(before)).digests
    plan = build_plan(stored(TENANTS + more, before))
    after = HostPlans(plan).digests
    assert {node for node in digests if digests[node] != after[node]} == changed


def test_egress_ip_is_in_the_plans_of_its_workloads_and_its_host():
    hosts = labelled(with_gateways("shared"))
    before = stored(TENANTS, hosts=hosts)
    plan = build_plan(stored(TENANTS + EGRESS_IP, before, hosts=hosts))
    digests, after = HostPlans(build_plan(before)).digests, HostPlans(plan).digests
    [held] = plan["egress_ips"]["e"]["addresses"]
    assert {node for node in digests if digests[node] != after[node]} == {"node2", held["node"]}


def moving(hosts: dict, node: str) -> dict:
    """Return a plan in which the address of an EgressIP is on one node, without a grace period for its network."""
    holder = {name: {**host, "labels": host["labels"] if name == node else {}} for name, host in hosts.items()}
    settings = {"dynamic_networks_grace_period": 0}
    return build_plan(stored(TENANTS + EGRESS_IP, hosts=holder, settings=settings))


def test_part_of_each_step_of_a_move(monkeypatch):
    """The network leaves its former host, and the address comes to a host that has nothing of it."""
    hosts = labelled(with_gateways("shared"))
    before, after = moving(hosts, "node1"), moving(hosts, "node3")
    moved = moved_addresses(before, after)
    assert set(moved.values()) == {"node1"}

    def steps() -> list[tuple[str, str, dict]]:
        found = []
        for node in hosts:
            prepared = handover.prepared_plan(after, node, moved)
            taken = {
                "prepared": prepared,
                "released": handover.released_plan(host_plan(before, node), after, node, moved),
                "claimed": handover.claimed_plan(prepared, after, node, moved),
                "rerouting": handover.rerouting_plan(after, node, moved),
            }
            found += [(node, step, one) for step, one in taken.items() if one]
        return found

    parts = steps()
    assert [(node, step) for node, step, _part in parts if step != "rerouting"] == [
        ("node1", "prepared"), ("node1", "released"), ("node2", "prepared"), ("node2", "claimed"),
        ("node3", "prepared"), ("node3", "claimed"),
    ]  # fmt: skip
    assert [node for node, step, _part in parts if step == "rerouting"] == [*hosts]
    monkeypatch.setattr(handover, "host_plan", lambda plan, _node: {**plan, "digest": plan_digest(plan)})
    for (node, _step, part), (_node, _same, whole) in zip(parts, steps(), strict=True):
        check_part(part, whole, node)


def test_large_parts_of_many_hosts_are_left_to_the_whole_plan(monkeypatch):
    snapshot = stored(TENANTS)
    found = Plans().packed(snapshot, ["node1", "node2"])
    assert {name: unpack(text)["digest"] for name, text in found.items()} == {
        name: HostPlans(build_plan(snapshot)).digests[name] for name in ("node1", "node2")
    }
    monkeypatch.setattr(plans, "_MOST_BYTES", sum(map(len, found.values())) - 1)
    assert Plans().packed(snapshot, ["node1", "node2"]) == {}
    assert Plans().packed(snapshot, ["node1"]).keys() == {"node1"}


def test_the_plans_of_all_hosts_make_the_plan():
    plan = build_plan(stored(LAB, settings=EVERYWHERE, hosts=with_gateways("shared")))
    parts = [host_plan(plan, node) for node in plan["nodes"]]
    assert merged(parts) == plan
    unused = build_plan(stored(TENANTS + namespace("green") + layer2("green", "net", "10.0.0.0/24")))
    whole = merged(host_plan(unused, node) for node in unused["nodes"])
    assert unused["networks"].keys() - whole["networks"].keys() == {"green_net"}
    assert whole["workloads"] == unused["workloads"]


def test_of_different_parts_those_of_the_later_plan_are_merged():
    before = stored(TENANTS)
    old = build_plan(before)
    later = {**build_plan(stored(TENANTS + workload("blue", "b", "node3"), before)), "revision": 9}
    found = merged([host_plan(later, "node3"), host_plan(old, "node2"), host_plan(old, "node1")])
    assert (found["revision"], found["networks"]) == (9, later["networks"])
    assert found["workloads"].keys() == later["workloads"].keys()
