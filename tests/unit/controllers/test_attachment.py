# SPDX-License-Identifier: Apache-2.0
"""Requests of workloads, and addresses kept for deleted ones."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot
from tests.pipeline import THREE_NODES, decide, layer2, layer3, namespace, plan_of, stored, workload

RED = namespace("red") + (
    "---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {name: net, namespace: red}\n"
    "spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.0.0.0/24, 'fd00:10::/64'], "
    "infrastructureSubnets: [10.0.0.240/28, 'fd00:10::/126'], reservedSubnets: [10.0.0.8/29], "
    "defaultGatewayIPs: [10.0.0.241, 'fd00:10::1']}}\n"
)


def secondary(namespace_name, name, more):
    return (
        "---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\n"
        f"metadata: {{name: {name}, namespace: {namespace_name}}}\n"
        f"spec: {{topology: Layer2, layer2: {{role: Secondary, {more}}}}}\n"
    )


def persistent(subnet="10.0.0.0/29"):
    return secondary("red", "keep", f"subnets: [{subnet}], ipam: {{lifecycle: Persistent}}")


def asking(name, addresses=(), mac=""):
    more = f"addresses: [{', '.join(map(repr, addresses))}]" if addresses else ""
    more += f"{', ' if more and mac else ''}" + (f"mac: {mac!r}" if mac else "")
    return workload("red", name, "node1").replace("node: node1", f"node: node1, {more}")


def after(*texts):
    snapshot = Snapshot()
    for text in texts:
        snapshot, problems = decide(text, snapshot)
        assert not problems
    return snapshot


def address(snapshot, name, network="red_keep"):
    described = build_plan(snapshot)["workloads"].get(name)
    return described and next(one["addresses"] for one in described["interfaces"] if one["network"] == network)


def message(snapshot, name):
    return snapshot.objects[f"Workload/red/{name}"].status["conditions"][0]["message"]


def test_persistent_address_is_kept_for_a_workload_of_the_same_name():
    base = namespace("red", primary=False) + persistent()
    first = base + workload("red", "a", "node1", "keep") + workload("red", "b", "node1", "keep")
    assert address(after(first), "red/b") == ["10.0.0.2/29"]
    between = base + workload("red", "a", "node1", "keep") + workload("red", "c", "node2", "keep")
    assert address(after(first, between), "red/c") == ["10.0.0.3/29"]
    again = between + workload("red", "b", "node3", "keep")
    assert address(after(first, between, again), "red/b") == ["10.0.0.2/29"]
    assert address(after(first, base, first), "red/b") == ["10.0.0.2/29"]


def test_without_persistence_the_address_is_free_at_once():
    base = namespace("red", primary=False) + secondary("red", "keep", "subnets: [10.0.0.0/29]")
    first = base + workload("red", "a", "node1", "keep") + workload("red", "b", "node1", "keep")
    between = base + workload("red", "a", "node1", "keep") + workload("red", "c", "node2", "keep")
    assert address(after(first, between), "red/c") == ["10.0.0.2/29"]


@pytest.mark.parametrize(
    "gone", ["", namespace("red", primary=False), namespace("blue", primary=False) + persistent()[:0]]
)
def test_claims_end_with_namespace_and_network(gone):
    first = namespace("red", primary=False) + persistent() + workload("red", "a", "node1", "keep")
    assert not [pool for pool in after(first, gone).allocations if "red_keep" in pool]


def test_exhaustion_lists_claims_of_deleted_workloads():
    base = namespace("red", primary=False) + persistent("10.0.0.0/30")
    first = base + workload("red", "a", "node1", "keep") + workload("red", "b", "node1", "keep")
    snapshot = after(first, base + workload("red", "c", "node1", "keep"))
    reported = "addresses in 10.0.0.0/30 of red_keep: 1 are wanted, all 2 are taken, 2 of them kept for what is gone"
    assert reported in message(snapshot, "c")
    assert "red/a, red/b" in message(snapshot, "c")


@pytest.mark.parametrize(
    ("asked", "mac", "fragment"),
    [
        (["10.0.0.7", "fd00:10::7"], "", None),
        (["10.0.0.9", "fd00:10::9"], "0A-58-00-00-00-09", None),
        ([], "02:00:00:00:00:01", None),
        (["10.0.1.7", "fd00:10::7"], "", "address 10.0.1.7 is in no subnet of red_net"),
        (["10.0.0.0", "fd00:10::7"], "", "10.0.0.0 stands for the whole subnet"),
        (["10.0.0.255", "fd00:10::7"], "", "10.0.0.255 stands for the whole subnet"),
        (["10.0.0.241", "fd00:10::7"], "", "10.0.0.241 is that of the network's gateway or of the nodes"),
        (["10.0.0.240", "fd00:10::7"], "", "10.0.0.240 is that of the network's gateway or of the nodes"),
        (["10.0.0.250", "fd00:10::7"], "", "10.0.0.250 is in 10.0.0.240/28, which is kept for infrastructure"),
        (["10.0.0.7", "fd00:10::2"], "", "fd00:10::2 is that of the network's gateway or of the nodes"),
        (["10.0.0.7"], "", "gives each workload one IPv4 and one IPv6 address"),
        (["10.0.0.7", "10.0.0.6"], "", "gives each workload one IPv4 and one IPv6 address"),
        (["10.0.0.5", "fd00:10::7"], "", "10.0.0.5 is held by red/first"),
        ([], "0a:58:0a:00:00:05", "MAC 0a:58:0a:00:00:05 is already that of red/first on red_net"),
        ([], "0a:58:0a:00:00:f1", "is already that of the gateway"),
        ([], "0a:58:0a:00:00:f0", "is already that of the nodes"),
    ],
)
def test_requested_addresses_and_macs(asked, mac, fragment):
    first = RED + asking("first", ["10.0.0.5", "fd00:10::5"])
    snapshot = after(first, first + asking("w", asked, mac))
    if fragment:
        assert fragment in message(snapshot, "w")
        assert "red/w" not in build_plan(snapshot)["workloads"]
        return
    found = build_plan(snapshot)["workloads"]["red/w"]["interfaces"][1]
    if asked:
        assert [one.partition("/")[0] for one in found["addresses"]] == asked
    if mac:
        assert found["mac"] == mac.lower().replace("-", ":")


def test_later_address_request_frees_the_old_address():
    snapshot = after(RED + workload("red", "w", "node1"), RED + asking("w", ["10.0.0.9", "fd00:10::9"]))
    assert address(snapshot, "red/w", "red_net") == ["10.0.0.9/24", "fd00:10::9/64"]
    later = after(
        RED + asking("w", ["10.0.0.9", "fd00:10::9"]), RED + asking("w", ["10.0.0.9", "fd00:10::9"]) + asking("x")
    )
    assert address(later, "red/x", "red_net") == ["10.0.0.1/24", "fd00:10::4/64"]


def test_allocation_retries_rejected_workloads_in_one_run():
    """`auto` first gets 10.0.0.2, whose MAC `holder` has; then that goes to `other`, and the next one is free."""
    holder = asking("holder", mac="0a:58:0a:00:00:02")
    given = RED + holder + asking("auto") + asking("other", mac="02:00:00:00:00:09")
    snapshot = stored(given, stored(RED + holder))
    assert stored(given, snapshot, now="2026-02-01T00:00:00Z") == snapshot
    assert "red/auto" in build_plan(snapshot)["workloads"]


def test_rejected_request_does_not_block_others():
    wrong = asking("a", ["10.0.0.9"])
    snapshot = stored(RED + wrong + asking("b", ["10.0.0.9", "fd00:10::9"]))
    assert "gives each workload one IPv4 and one IPv6 address" in message(snapshot, "a")
    assert address(snapshot, "red/b", "red_net") == ["10.0.0.9/24", "fd00:10::9/64"]


def test_request_for_a_used_mac_waits_independent_of_names():
    running = RED + asking("b", mac="02:00:00:00:00:01")
    snapshot = stored(running + asking("a", mac="02:00:00:00:00:01"), stored(running))
    assert "red/b" in build_plan(snapshot)["workloads"]
    assert snapshot.objects["Workload/red/a"].status["conditions"][0]["reason"] == "AllocationFailed"
    assert "MAC 02:00:00:00:00:01 is already that of red/b" in message(snapshot, "a")


def test_addresses_need_a_primary_layer2_network():
    text = namespace("red") + layer3("red", "net", "10.9.0.0/16", 24) + asking("w", ["10.9.0.7"])
    assert "has no primary Layer2 network" in message(after(text), "w")


def test_reserved_addresses_only_on_request():
    small = RED.replace("10.0.0.0/24", "10.0.0.0/28").replace("10.0.0.240/28", "10.0.0.4/30").replace("241", "5")
    text = small + "".join(workload("red", f"w{number}", "node1") for number in range(4))
    snapshot = after(text)
    given = {one for number in range(4) for one in address(snapshot, f"red/w{number}", "red_net") or []}
    assert {one for one in given if "." in one} == {"10.0.0.1/28", "10.0.0.2/28", "10.0.0.3/28"}
    assert "all 3 are taken" in message(snapshot, "w3")


@pytest.mark.parametrize(
    ("gateways", "infrastructure", "gateway", "management"),
    [
        ("", "", "10.0.0.1", "10.0.0.2"),
        ("10.0.0.9", "", "10.0.0.9", "10.0.0.2"),
        ("10.0.0.2", "", "10.0.0.2", "10.0.0.1"),
        ("", "10.0.0.0/29", "10.0.0.1", "10.0.0.2"),
        ("10.0.0.1", "10.0.0.0/31", "10.0.0.1", "10.0.0.2"),
        ("10.0.0.2", "10.0.0.0/29", "10.0.0.2", "10.0.0.1"),
        ("10.0.0.240", "10.0.0.240/28", "10.0.0.240", "10.0.0.241"),
        ("10.0.0.241", "10.0.0.240/28", "10.0.0.241", "10.0.0.240"),
    ],
)
def test_gateway_and_management_port(gateways, infrastructure, gateway, management):
    spec = "role: Primary" + (f", defaultGatewayIPs: [{gateways}]" if gateways else "")
    spec += f", infrastructureSubnets: [{infrastructure}]" if infrastructure else ""
    if infrastructure and not gateways:
        spec += ", defaultGatewayIPs: [10.0.0.1]"
    plan = plan_of(namespace("red") + layer2("red", "net", "10.0.0.0/24").replace("role: Primary", spec))
    network = plan["networks"]["red_net"]
    assert (network["gateways"], network["management"]) == ([gateway], [management])


def test_switch_without_router_has_no_address_and_no_tunnel_id():
    text = namespace("red") + layer2("red", "net", "10.0.0.0/24") + secondary("red", "flat", "subnets: [10.7.0.0/24]")
    interfaces = plan_of(text + workload("red", "w", "node1", "flat"))["workloads"]["red/w"]["interfaces"]
    reported = {one["network"]: (one["addresses"], one["tunnel_id"], one["routes"] != []) for one in interfaces}
    assert reported["red_net"] == (["10.0.0.3/24"], 10, True)
    assert reported["red_flat"] == (["10.7.0.1/24"], 1, False)


def test_without_ipam_there_is_a_mac_that_stays_and_no_address():
    base = namespace("red", primary=False) + secondary("red", "wire", "ipam: {mode: Disabled}")
    first = after(base + workload("red", "b", "node1", "wire"))
    second = after(
        base + workload("red", "b", "node1", "wire"),
        base + workload("red", "a", "node2", "wire") + workload("red", "b", "node1", "wire"),
    )
    macs = {}
    for snapshot in (first, second):
        for name, described in build_plan(snapshot)["workloads"].items():
            found = described["interfaces"][1]
            assert found["addresses"] == []
            assert macs.setdefault(name, found["mac"]) == found["mac"]
    assert len(set(macs.values())) == len(macs) == 2
    assert not [pool for pool in after(base + workload("red", "b", "node1", "wire"), "").allocations if "wire" in pool]


LOCALNET = namespace("red", primary=False) + (
    "---\napiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {name: plant}\n"
    "spec: {namespaceSelector: {}, network: {topology: Localnet, localnet: {role: Secondary, "
    "physicalNetworkName: factory, subnets: [10.66.0.0/24], excludeSubnets: [10.66.0.0/30]}}}\n"
)


def test_a_localnet_workload_has_an_address_and_the_mtu_of_the_provider_network_and_no_route():
    found = build_plan(after(LOCALNET + workload("red", "w", "node1", "plant")))["workloads"]["red/w"]["interfaces"][1]
    assert (found["addresses"], found["mtu"], found["routes"], found["tunnel_id"]) == (["10.66.0.4/24"], 1500, [], None)


@pytest.mark.parametrize(
    ("reported", "fragment"),
    [
        ({"physical_networks": {"factory": "br-ex"}}, None),
        ({"physical_networks": {"office": "br-ex"}}, "node1 has no mapping for the physical network factory of"),
        ({"mode": "shared"}, "it has physnet; name others in the inventory"),
        # A host without a report is not known to be wrong.
        (None, None),
    ],
)
def test_localnet_workload_waits_on_a_node_without_the_physical_network(reported, fragment):
    hosts = {name: {**host, "gateway": reported} for name, host in THREE_NODES.items()}
    snapshot, problems = decide(LOCALNET + workload("red", "w", "node1", "plant"), hosts=hosts)
    assert not problems
    assert fragment is None or fragment in message(snapshot, "w")
    assert ("red/w" in build_plan(snapshot)["workloads"]) == (fragment is None)


def test_kept_addresses_can_be_released():
    text = namespace("red") + layer2("red", "net", "10.0.0.0/29").replace(
        "subnets:", "ipam: {lifecycle: Persistent}, subnets:"
    )  # fmt: skip
    before = stored(text + "".join(workload("red", f"w{number}", "node1") for number in range(4)))
    before = stored(text + workload("red", "w0", "node1"), before)
    pool = "address/red_net/10.0.0.0/29"
    assert set(before.allocations[pool]) == {f"red/w{number}" for number in range(4)}
    wanted = text + workload("red", "w0", "node1") + workload("red", "new", "node1")
    waiting = stored(wanted, before)
    message = waiting.objects["Workload/red/new"].status["conditions"][0]["message"]
    assert "release what does not come back, as in -e heddle_released=red/w1, or remove workloads" in message
    after = stored(wanted, waiting, released=("red/w2", "red/unknown"))
    assert after.allocations[pool] == {
        "red/w0": "10.0.0.3", "red/w1": "10.0.0.4", "red/new": "10.0.0.5", "red/w3": "10.0.0.6",
    }  # fmt: skip
    assert stored(wanted, after, released=("red/w2", "red/unknown")) == after


@pytest.mark.parametrize(
    ("name", "fragment"),
    [("red/w", "is to be released (heddle_released), and is there"), ("w", "w is not NAMESPACE/NAME of a workload")],
)
def test_only_addresses_of_deleted_workloads_can_be_released(name, fragment):
    text = namespace("red") + layer2("red", "net", "10.0.0.0/29") + workload("red", "w", "node1")
    _after, problems = decide(text, stored(text), released=(name,))
    assert [fragment in str(problem) for problem in problems] == [True]
