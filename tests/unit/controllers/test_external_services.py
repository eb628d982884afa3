# SPDX-License-Identifier: Apache-2.0
"""Services that are reached from beyond their network: node ports, load balancer addresses and their hosts."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.allocation.address_assignment import (
    Candidate,
    assigned_hosts,
)
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.layer2_steps import change_version, drain, go_back
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.workload.placement import node_of
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.plan.address_holders import moved_addresses
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.entrances import (
    held_addresses,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.handover import (
    announced_addresses,
    pending_addresses,
    prepared_plan,
    released_plan,
)
from ansible_collections.heddle.ovn.plugins.module_utils.store.layer2_version import TRANSIT_ROUTER
from tests.pipeline import decide, layer2, namespace, stored, with_gateways, workload

HOSTS = with_gateways("shared")
LATE = "2026-01-02T00:00:00Z"
TENANTS = "".join(
    namespace(name) + layer2(name, "net", "10.0.0.0/24", "fd00:10::/64")
    + workload(name, "a", "node2").replace(f": {name}}}", f": {name}, labels: {{app: web}}}}")
    for name in ("red", "blue")
)  # fmt: skip


def service(spec: str, where: str = "red", name: str = "web", ports: str = "{port: 80}") -> str:
    return (
        f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {where}}}\n"
        f"spec: {{selector: {{app: web}}, ports: [{ports}], {spec}}}\n"
    )


def pool(*subnets: str, name: str = "provider") -> str:
    listed = ", ".join(map(repr, subnets))
    return (
        f"---\napiVersion: heddle.dev/v1\nkind: LoadBalancerPool\nmetadata: {{name: {name}}}\n"
        f"spec: {{subnets: [{listed}]}}\n"
    )


def refused(text: str, **more) -> list[str]:
    return [f"{one.path}: {one.rule}" for one in decide(text, hosts=HOSTS, **more)[1]]


def node_ports_of(ports: str, before=None) -> list[int]:
    after = stored(TENANTS + service("type: NodePort", ports=ports), before, hosts=HOSTS)
    return after.objects["Service/red/web"].status["nodePorts"]


def announced(text: str, key: str = "Service/red/web", **more) -> tuple[str, str]:
    found = condition(stored(text, hosts=more.pop("hosts", HOSTS), **more).objects[key], "Announced")
    return found["reason"], found["message"]


def test_node_ports_are_unique_and_stay():
    text = TENANTS + service("type: NodePort") + service("type: NodePort", "blue")
    first = stored(text, hosts=HOSTS)
    held = first.allocations["node-port"]
    assert held == {"blue/web/TCP/80": "30086", "red/web/TCP/80": "30087"}
    more = text + service("type: NodePort", "blue", "also", "{port: 1}")
    assert stored(more, first, hosts=HOSTS).allocations["node-port"].items() > held.items()
    assert first.objects["Service/red/web"].status["nodePorts"] == [30087]
    assert "node-port" not in stored(TENANTS, first, hosts=HOSTS).allocations


def test_equal_node_ports_of_two_networks_are_refused_by_name():
    asked = "{port: 80, nodePort: 30080}"
    both = TENANTS + service("type: NodePort", ports=asked) + service("type: NodePort", "blue", ports=asked)
    rule = "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated to Service blue/web"
    assert refused(both) == [rule]
    first = stored(TENANTS + service("type: NodePort"), hosts=HOSTS)
    taken = "{port: 80, nodePort: 30086}"
    text = TENANTS + service("type: NodePort") + service("type: NodePort", "blue", ports=taken)
    assert refused(text, before=first)[0].endswith("already allocated to Service red/web")


def test_the_range_of_node_ports():
    for number, fits in ((29999, False), (30000, True), (32767, True), (32768, False)):
        found = refused(TENANTS + service("type: NodePort", ports=f"{{port: 80, nodePort: {number}}}"))
        assert found == [] if fits else "The range of valid ports is 30000-32767" in found[0]


def test_protocols_share_a_requested_node_port():
    ports = "{name: a, port: 53, nodePort: 30053}, {name: b, port: 53, protocol: UDP, nodePort: 30053}"
    found = stored(TENANTS + service("type: NodePort", ports=ports), hosts=HOSTS)
    assert found.objects["Service/red/web"].status["nodePorts"] == [30053, 30053]


def test_protocols_of_one_port_share_a_node_port():
    """Kubernetes, `initNodePorts`: one number for a port, whatever its protocols, requested or not."""
    ports = "{name: t, port: 53}, {name: u, port: 53, protocol: UDP}, {name: h, port: 80}"
    first = stored(TENANTS + service("type: NodePort", ports=ports), hosts=HOSTS)
    assert first.objects["Service/red/web"].status["nodePorts"] == [30086, 30086, 30087]
    asked = ports.replace("{name: t, port: 53}", "{name: t, port: 53, nodePort: 30053}")
    assert node_ports_of(asked) == [30053, 30053, 30086]
    # What it has it may request for one protocol, and keeps for the other.
    again = ports.replace("protocol: UDP", "protocol: UDP, nodePort: 30086")
    assert node_ports_of(again, first) == [30086, 30086, 30087]
    assert node_ports_of(ports.replace("{name: t, port: 53}, ", ""), first) == [30086, 30087]
    apart = "{name: t, port: 53, nodePort: 30053}, {name: u, port: 54, protocol: UDP, nodePort: 30053}, "
    # The number of TCP port 53 is that of UDP port 54 too, so UDP port 53 has another one.
    assert node_ports_of(apart + "{name: v, port: 53, protocol: UDP}") == [30053, 30053, 30086]


def test_node_ports_that_were_allocated_apart_stay():
    ports = "{name: t, port: 53}, {name: u, port: 53, protocol: UDP}"
    before = stored(TENANTS + service("type: NodePort", ports=ports), hosts=HOSTS)
    before.allocations["node-port"] = {"red/web/TCP/53": "30100", "red/web/UDP/53": "30101"}
    after = stored(TENANTS + service("type: NodePort", ports=ports), before, hosts=HOSTS)
    assert after.objects["Service/red/web"].status["nodePorts"] == [30100, 30101]
    assert node_ports_of(ports.replace("{name: t, port: 53}, ", ""), after) == [30101]


def test_a_requested_node_port_is_there_without_allocation_of_node_ports():
    """Kubernetes, `allocateLoadBalancerNodePorts`: such requests will be respected, regardless of this field."""
    ports = "{name: a, port: 80, nodePort: 30080}, {name: b, port: 81}"
    spec = "type: LoadBalancer, allocateLoadBalancerNodePorts: false"
    after = stored(TENANTS + service(spec, ports=ports), hosts=HOSTS)
    assert after.objects["Service/red/web"].status["nodePorts"] == [30080, 0]
    plan = build_plan(after)
    assert [one.get("node_port") for one in plan["services"]["red_net"]["red/web"]["ports"]] == [30080, None]
    # Clients come in by any node.
    assert set(plan["networks"]["red_net"]["nodes"]) == set(HOSTS)
    both = service(spec, ports=ports) + service("type: NodePort", "blue", ports="{port: 80, nodePort: 30080}")
    assert refused(TENANTS + both)[0].endswith("already allocated to Service blue/web")


def test_load_balancer_addresses_and_their_hosts():
    text = TENANTS + pool("192.0.2.200/31") + service("type: LoadBalancer") + service("type: LoadBalancer", "blue")
    found = stored(text, hosts=HOSTS)
    assert found.allocations["load-balancer-v4"] == {"blue/web": "192.0.2.200", "red/web": "192.0.2.201"}
    status = found.objects["Service/red/web"].status
    assert status["loadBalancer"] == {"ingress": [{"ip": "192.0.2.201", "ipMode": "VIP"}]}
    assert {one.status["announcers"][address] for one, address in (
        (found.objects["Service/blue/web"], "192.0.2.200"), (found.objects["Service/red/web"], "192.0.2.201"),
    )} == {"node1", "node2"}  # fmt: skip
    third = service("type: LoadBalancer", name="more")
    again = stored(text + third, found, hosts=HOSTS)
    assert again.allocations["load-balancer-v4"] == found.allocations["load-balancer-v4"]
    assert condition(again.objects["Service/red/more"], "Announced")["reason"] == "PoolExhausted"
    plan = build_plan(found)
    assert held_addresses(plan, "node1") == ["192.0.2.200"]
    assert set(plan["networks"]["red_net"]["nodes"]) == set(HOSTS)


@pytest.mark.parametrize("other", ["type: NodePort", "type: ClusterIP"])
@pytest.mark.parametrize("next_service", ["", service("type: LoadBalancer", name="next")])
def test_a_service_of_another_type_has_no_load_balancer_address_any_more(other, next_service):
    """Its former address may be another Service's, and two with one address were refused by the hosts' nftables."""
    text = TENANTS + pool("192.0.2.200/32")
    before = stored(text + service("type: LoadBalancer"), hosts=HOSTS)
    after = stored(text + service(other) + next_service, before, hosts=HOSTS)
    former = after.objects["Service/red/web"].status
    assert ("announcers" in former, former["loadBalancer"]) == (False, {})
    by_service = build_plan(after)["services"]["red_net"]
    assert not by_service["red/web"].get("external", {}).get("load_balancer")
    if next_service:
        assert [one["address"] for one in by_service["red/next"]["external"]["load_balancer"]] == ["192.0.2.200"]


def test_addresses_move_when_their_host_is_gone():
    text = TENANTS + pool("192.0.2.200/31") + service("type: LoadBalancer")
    first = stored(text, hosts=HOSTS)
    assert first.objects["Service/red/web"].status["announcers"] == {"192.0.2.200": "node1"}
    label = {"node.kubernetes.io/exclude-from-external-load-balancers": ""}
    without = {name: {**host, "labels": label if name == "node1" else {}} for name, host in HOSTS.items()}
    second = stored(text, first, hosts=without)
    assert second.objects["Service/red/web"].status["announcers"] == {"192.0.2.200": "node2"}
    old, new = build_plan(first), build_plan(second)
    moved = moved_addresses(old, new)
    assert moved == {"192.0.2.200": "node1"}
    # Both hosts have all that it needs, and neither has the address, until the new one claims it.
    assert prepared_plan(new, "node1", moved) is None
    prepared, released = prepared_plan(new, "node2", moved), released_plan(old, new, "node1", moved)
    for plan, node in ((prepared, "node2"), (released, "node1")):
        assert held_addresses(plan, node) == ["192.0.2.200"]
        assert announced_addresses(plan, node) == []
    assert pending_addresses(prepared, new, "node2") == ["192.0.2.200"]
    assert pending_addresses(released, new, "node1") == []
    assert released_plan(old, new, "node3", moved) is None
    assert (
        stored(text, second, hosts=HOSTS).objects["Service/red/web"].status == second.objects["Service/red/web"].status
    )


@pytest.mark.parametrize(
    ("more", "spec", "reason"),
    [
        ("", "", "NoPool"),
        (pool("198.51.100.0/31"), "", "NoMatchingNodeFound"),
        (pool("192.0.2.200/31"), "loadBalancerIP: 192.0.2.210, ", "AddressNotInPool"),
        (pool("192.0.2.200/31"), "loadBalancerIP: 192.0.2.201, ", "Announced"),
        (pool("192.0.2.200/31"), "loadBalancerClass: example.com/other, ", "LoadBalancerClassNotSupported"),
        (pool("192.0.2.200/31"), "externalTrafficPolicy: Local, ", "Announced"),
        (pool("192.0.2.200/31"), "externalTrafficPolicy: Local, selector: {app: none}, ", "NoLocalEndpoints"),
    ],
)
def test_condition(more, spec, reason):
    text = service(f"{spec}type: LoadBalancer")
    if "selector: {app: none}" in spec:
        text = text.replace("selector: {app: web}, ", "")
    assert announced(TENANTS + more + text)[0] == reason


def test_pools_that_a_host_can_announce_come_first():
    """Whatever their names and the order of their subnets; the others are used when these are exhausted."""
    pools = pool("198.51.100.0/31", "192.0.2.201/32", name="a") + pool("192.0.2.200/32", name="b")
    names = ["s1", "s2", "s3", "s4"]
    text = TENANTS + pools + "".join(service("type: LoadBalancer", name=name) for name in names)
    after = stored(text, hosts=HOSTS)
    held = [after.allocations["load-balancer-v4"][f"red/{name}"] for name in names]
    assert held == ["192.0.2.201", "192.0.2.200", "198.51.100.0", "198.51.100.1"]
    excluded = {"node.kubernetes.io/exclude-from-external-load-balancers": ""}
    none = {name: {**host, "labels": excluded} for name, host in HOSTS.items()}
    first = stored(TENANTS + pools + service("type: LoadBalancer"), hosts=none).allocations["load-balancer-v4"]
    assert first == {"red/web": "198.51.100.0"}


def test_an_address_that_no_host_announces_stays():
    beyond, text = pool("198.51.100.0/31", name="a"), TENANTS + service("type: LoadBalancer")
    before = stored(text + beyond, hosts=HOSTS)
    after = stored(text + beyond + pool("192.0.2.200/32", name="b"), before, hosts=HOSTS)
    assert after.allocations["load-balancer-v4"] == {"red/web": "198.51.100.0"}


def test_a_family_that_the_network_lacks_gets_no_address():
    red = namespace("red") + layer2("red", "net", "10.0.0.0/24")
    text = red + pool("192.0.2.200/31", "2001:db8::c00/127")
    both = text + service("type: LoadBalancer, ipFamilyPolicy: PreferDualStack")
    after = stored(both, hosts=HOSTS)
    assert "load-balancer-v6" not in after.allocations
    assert announced(both) == ("Announced", "192.0.2.200 by node1")
    assert condition(after.objects["Service/red/web"], "Ready")["reason"] == "IPFamilyNotOnNetwork"
    assert stored(both, after, hosts=HOSTS) == after
    six = text + service("type: LoadBalancer, ipFamilies: [IPv6]")
    assert announced(six) == ("IPFamilyNotOnNetwork", "network red_net has no IPv6")
    # An address that an earlier version allocated is free again.
    after.allocations["load-balancer-v6"] = {"red/web": "2001:db8::c00"}
    assert "load-balancer-v6" not in stored(both, after, hosts=HOSTS).allocations


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (pool("192.0.2.8/29"), "192.0.2.8/29 contains 192.0.2.11, an address of host node1"),
        (pool("192.0.2.0/30"), "192.0.2.0/30 contains 192.0.2.1, the default gateway of host node1"),
        (pool("10.96.0.0/24"), "10.96.0.0/24 overlaps with 10.96.0.0/16, the setting service_subnets"),
        (pool("100.88.0.0/24"), "100.88.0.0/24 overlaps with 100.88.0.0/16, the setting transit_subnets"),
        (
            pool("192.0.2.200/31") + pool("192.0.2.200/32", name="other"),
            "192.0.2.200/32 overlaps with 192.0.2.200/31 of LoadBalancerPool provider",
        ),
        (
            pool("192.0.2.200/31") + "---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: out}\n"
            "spec: {egressIPs: [192.0.2.201], namespaceSelector: {}}\n",
            "192.0.2.200/31 contains 192.0.2.201, an address of EgressIP out",
        ),
    ],
)
def test_pools_that_are_refused(text, rule):
    assert f"spec.subnets[0]: {rule}" in refused(TENANTS + text)


def test_external_ips_that_are_refused():
    text = TENANTS + pool("192.0.2.200/31")
    for address, rule in (
        ("192.0.2.12", "is an address of host node2"),
        ("192.0.2.201", "is in 192.0.2.200/31 of LoadBalancerPool provider"),
        ("192.0.2.1", "is the default gateway of host node1"),
        ("192.0.2.255", "is the broadcast address of 192.0.2.0/24"),
        ("10.96.0.10", "is in 10.96.0.0/16, the setting service_subnets"),
        ("fd00:10:96::a", "is in fd00:10:96::/112, the setting service_subnets"),
        ("10.244.0.3", "is in 10.244.0.0/16, the setting cluster_subnets"),
        ("100.64.0.2", "is in 100.64.0.0/16, the setting join_subnets"),
        ("100.88.0.2", "is in 100.88.0.0/16, the setting transit_subnets"),
    ):
        found = refused(text + service(f"externalIPs: [{address}]"))
        assert found == [f'spec.externalIPs[0]: Invalid value: "{address}": {rule}']
    same = service("externalIPs: [198.51.100.9]")
    both = text + same + same.replace("namespace: red", "namespace: blue")
    assert refused(both) == [
        'spec.externalIPs[0]: Invalid value: "198.51.100.9": has port 80 (TCP) of Service blue/web already'
    ]


def test_external_ips_in_the_services_own_network_are_refused():
    """Their packets between workloads would be intercepted; those of other networks are not."""
    text = namespace("red") + layer2("red", "net", "10.70.0.0/24", "fd00:70::/64")
    text += namespace("blue") + layer2("blue", "net", "10.80.0.0/24")
    for address, subnet in (
        ("10.70.0.9", "10.70.0.0/24"), ("fd00:70::9", "fd00:70::/64"), ("100.65.0.2", "100.65.0.0/16"),
    ):  # fmt: skip
        assert refused(text + service(f"externalIPs: ['{address}']")) == [
            f'spec.externalIPs[0]: Invalid value: "{address}": is in {subnet} of its network red_net'
        ]
    assert refused(text + service("externalIPs: [10.80.0.9]")) == []


def test_fields_that_may_not_change():
    text = TENANTS + pool("192.0.2.200/31")
    local = "type: LoadBalancer, externalTrafficPolicy: Local"
    before = stored(text + service(local), hosts=HOSTS)
    assert refused(text + service(f"{local}, loadBalancerClass: heddle.dev/load-balancer"), before=before) == [
        'spec.loadBalancerClass: Invalid value: "heddle.dev/load-balancer": may not change once set: it is not set'
    ]
    assert "field is immutable" in refused(text + service(f"{local}, healthCheckNodePort: 30001"), before=before)[0]
    assert not refused(text + service("type: NodePort"), before=before)


def test_an_address_stays_with_its_host_and_the_others_are_balanced():
    hosts = [Candidate("a", ("192.0.2.0/24",)), Candidate("b", ("192.0.2.0/24", "2001:db8::/64"))]
    found = assigned_hosts(dict.fromkeys(["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1"]), hosts, {})
    assert found == {"192.0.2.1": "a", "192.0.2.2": "b", "192.0.2.3": "a", "2001:db8::1": "b"}
    moved = assigned_hosts({**dict.fromkeys(found), "192.0.2.1": ["b"], "192.0.2.9": []}, hosts, found)
    assert moved == {**found, "192.0.2.1": "b"}


def test_the_steps_of_an_upgrade_leave_the_status_that_the_next_run_finds():
    old = {"layer2_topology": "gateway-router"}
    text = TENANTS + pool("192.0.2.192/28") + service("type: LoadBalancer")
    before = stored(text, hosts=HOSTS, settings=old)
    [holder] = before.objects["Service/red/web"].status["announcers"].values()
    drained, _moves, blockers = drain(before, [holder], TRANSIT_ROUTER, LATE)
    assert not blockers
    [target] = drained.objects["Service/red/web"].status["announcers"].values()
    assert target != holder
    assert condition(drained.objects["Service/red/web"], "Announced")["message"] == f"192.0.2.192 by {target}"
    changed, blockers = change_version(drained, [holder], TRANSIT_ROUTER, LATE)
    assert not blockers
    again = stored(text, changed, hosts=HOSTS, settings=old, now=LATE)
    assert again.objects["Service/red/web"] == changed.objects["Service/red/web"]


def test_an_address_follows_local_endpoints_that_return_to_their_nodes():
    old = {"layer2_topology": "gateway-router"}
    text = TENANTS + pool("192.0.2.192/28") + service("type: LoadBalancer, externalTrafficPolicy: Local")
    before = stored(text, hosts=HOSTS, settings=old)
    drained, _moves, _blockers = drain(before, ["node2"], TRANSIT_ROUTER, LATE)
    changed, _blockers = change_version(drained, ["node2"], TRANSIT_ROUTER, LATE)
    away = node_of(changed.objects["Workload/red/a"])
    assert (away != "node2", changed.objects["Service/red/web"].status["announcers"]) == (True, {"192.0.2.192": away})
    returned, moves, blockers = go_back(changed, LATE)
    assert (len(moves), blockers) == (2, [])
    assert moved_addresses(build_plan(changed), build_plan(returned)) == {"192.0.2.192": away}
    assert condition(returned.objects["Service/red/web"], "Announced")["message"] == "192.0.2.192 by node2"


WITHOUT = "type: LoadBalancer, externalTrafficPolicy: Local, allocateLoadBalancerNodePorts: false"


def local_ports_of(state) -> dict[str, list[int]]:
    found = {name: entry for services in build_plan(state)["services"].values() for name, entry in services.items()}
    return {name: [port.get("local_port", 0) for port in entry["ports"]] for name, entry in found.items()}


def test_services_without_node_ports_have_numbers_of_their_own_in_local_gateway_mode():
    two = "{name: a, port: 80}, {name: b, port: 81, nodePort: 30200}"
    text = TENANTS + service(WITHOUT, ports=two) + service(WITHOUT, "blue")
    shared = stored(text, hosts=HOSTS)
    assert local_ports_of(shared) == {"red/web": [0, 0], "blue/web": [0]}
    hosts = with_gateways("local")
    first = stored(text, shared, hosts=hosts)
    assert local_ports_of(first) == {"red/web": [2, 0], "blue/web": [1]}
    assert first.objects["Service/blue/web"].status.get("nodePorts") is None
    more = stored(text + service(WITHOUT, "blue", "also"), first, hosts=hosts)
    assert local_ports_of(more) == {"red/web": [2, 0], "blue/web": [1], "blue/also": [3]}
    for spec in (WITHOUT.replace("Local", "Cluster"), "type: NodePort, externalTrafficPolicy: Local"):
        assert local_ports_of(stored(TENANTS + service(spec), first, hosts=hosts)) == {"red/web": [0]}
