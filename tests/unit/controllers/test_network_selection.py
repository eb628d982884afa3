# SPDX-License-Identifier: Apache-2.0
"""Which secondary networks a workload is attached to: those that its annotation selects, when they are there."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.allocation import tunnel_keys
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.pipeline import decide, layer2, layer3, namespace, stored, workload
from tests.unit.controllers.test_network_status import condition_of, foreign

PLAIN = namespace("red", primary=False)
PRIMARY = namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
LATER = "2026-02-01T00:00:00Z"


def secondary(name, more="ipam: {mode: Disabled}", inside="red"):
    return (
        f"---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {{name: {name}, namespace: {inside}}}\n"
        f"spec: {{topology: Layer2, layer2: {{role: Secondary, {more}}}}}\n"
    )


def flat(name, subnet="10.7.0.0/24", inside="red"):
    return secondary(name, f"subnets: [{subnet}]", inside)


def routed(name):
    return layer3("red", name, "10.9.0.0/16", 24).replace("Primary", "Secondary")


def web(networks="", node="node1"):
    return workload("red", "web", node, networks)


def interfaces(snapshot, name="red/web"):
    return build_plan(snapshot)["workloads"][name]["interfaces"]


def names(snapshot, name="red/web"):
    return [(one["name"], one["network"]) for one in interfaces(snapshot, name)]


def ready(snapshot, name="red/web"):
    return condition_of(snapshot, f"Workload/{name}", "Ready")


def refused(text, before=None):
    _after, problems = decide(text, before)
    return [str(problem) for problem in problems]


def test_without_the_annotation_a_workload_joins_no_secondary_network():
    assert names(stored(PLAIN + flat("a") + web())) == [("eth0", "default")]
    assert names(stored(PRIMARY + flat("a") + web())) == [("eth0", "default"), ("ovn-udn1", "red_net")]


def test_interfaces_are_named_by_their_position_or_by_request():
    snapshot = stored(PRIMARY + flat("a") + secondary("b") + secondary("c") + web("c,b@wire0,a"))
    assert names(snapshot)[2:] == [("net1", "red_c"), ("wire0", "red_b"), ("net3", "red_a")]
    assert snapshot.objects["Workload/red/web"].status["attachments"] == ["red/a", "red/b", "red/c", "red/net"]
    assert ready(snapshot) == ("True", "Attached", "attached to: default, red_net, red_c, red_b, red_a")


def test_a_definition_of_another_namespace_may_be_selected():
    """Multus: its option namespaceIsolation is off by default."""
    text = PLAIN + namespace("blue", primary=False) + flat("a", inside="blue") + web("blue/a")
    snapshot = stored(text)
    found = interfaces(snapshot)[1]
    assert (found["network"], found["nad"], found["port"]) == ("blue_a", "blue/a", "blue.a_red_web")
    assert found["addresses"] == ["10.7.0.1/24"]
    gone = stored(PLAIN + namespace("blue", primary=False) + web("blue/a"), snapshot)
    assert "network in use by the following pods: [red/web]" in condition_of(gone, "UserDefinedNetwork/blue/a")[2]


def test_the_same_network_twice_is_two_interfaces_with_the_ports_of_ovn_kubernetes():
    snapshot = stored(PLAIN + flat("a") + web("a,a"))
    found = interfaces(snapshot)[1:]
    assert [(one["name"], one["nad"], one["port"], one["addresses"]) for one in found] == [
        ("net1", "red/a", "red.a_red_web", ["10.7.0.1/24"]),
        ("net2", "red/a/1", "red.a.1_red_web", ["10.7.0.2/24"]),
    ]
    assert len({(one["mac"], one["tunnel_id"]) for one in found}) == 2
    assert names(stored(PLAIN + flat("a") + web("a"), snapshot))[1:] == [("net1", "red_a")]


def test_of_two_networks_whose_ports_would_have_one_name_only_one_can_be_selected():
    """The second port of `a` is called as the first one of `a-1`."""
    snapshot = stored(PLAIN + flat("a") + secondary("a-1") + web("a,a,a-1"))
    assert ready(snapshot)[:2] == ("False", "InvalidNetworkSelection")
    assert "the ports of net2 and net3 would both be called red.a.1_red_web" in ready(snapshot)[2]


@pytest.mark.parametrize(
    ("more", "networks", "reason", "message"),
    [
        ("", "gone", "NetworkAttachmentDefinitionNotFound", "[0]: there is no network attachment definition red/gone"),
        ("", "blue/a", "NetworkAttachmentDefinitionNotFound", "there is no network attachment definition blue/a"),
        (foreign("{}", "theirs"), "theirs", "ForeignNetworkAttachmentDefinition", "a user applied the network"),
    ],
)
def test_a_workload_waits_for_what_it_selects_and_others_run(more, networks, reason, message):
    text = PLAIN + more + web(networks) + workload("red", "other", "node1")
    snapshot = stored(text)
    assert ready(snapshot)[:2] == ("False", reason)
    assert message in ready(snapshot)[2]
    assert set(build_plan(snapshot)["workloads"]) == {"red/other"}
    assert stored(text, snapshot, now=LATER) == snapshot


def test_it_waits_for_a_network_that_is_defined_and_not_applied(monkeypatch):
    monkeypatch.setattr(tunnel_keys, "NETWORK_IDS", (1, 1))
    text = PLAIN + flat("a") + flat("b", "10.8.0.0/24") + web("a,b") + workload("red", "other", "node1", "a")
    snapshot = stored(text)
    assert ready(snapshot)[:2] == ("False", "NetworkNotReady")
    assert "[1]: UserDefinedNetwork/red/b is not applied, and its status says why" in ready(snapshot)[2]
    assert set(build_plan(snapshot)["workloads"]) == {"red/other"}
    monkeypatch.undo()
    assert names(stored(text, snapshot))[1:] == [("net1", "red_a"), ("net2", "red_b")]


def test_it_starts_in_the_run_in_which_the_network_comes():
    before = stored(PLAIN + web("a"))
    assert names(stored(PLAIN + web("a") + flat("a"), before)) == [("eth0", "default"), ("net1", "red_a")]


def test_a_running_workload_goes_on_without_a_network_that_is_not_there_and_is_attached_later():
    before = stored(PLAIN + flat("a") + web("a"))
    during = stored(PLAIN + flat("a") + web("a,b"), before)
    assert ready(during)[:2] == ("False", "NetworkAttachmentDefinitionNotFound")
    assert names(during)[1:] == [("net1", "red_a")]
    assert during.objects["Workload/red/web"].status["attachments"] == ["red/a"]
    after = stored(PLAIN + flat("a") + flat("b", "10.8.0.0/24") + web("a,b"), during)
    assert (names(after)[1:], ready(after)[0]) == ([("net1", "red_a"), ("net2", "red_b")], "True")


def test_the_annotation_of_a_running_workload_attaches_and_detaches():
    base = PLAIN + flat("a") + flat("b", "10.8.0.0/24")
    first = stored(base + web("a"))
    both = stored(base + web("a,b"), first)
    assert interfaces(both)[1] == interfaces(first)[1]
    assert names(both)[1:] == [("net1", "red_a"), ("net2", "red_b")]
    at_once = {"dynamic_networks_grace_period": 0}
    second = stored(base + web("b"), both, settings=at_once)
    assert names(second)[1:] == [("net1", "red_b")]
    assert interfaces(second)[1]["addresses"] == interfaces(both)[2]["addresses"]
    assert "red/web" not in second.allocations.get("address/red_a/10.7.0.0/24", {})
    assert stored(base + web("b"), second, settings=at_once, now=LATER) == second


def test_a_network_is_in_use_by_those_that_select_it_and_by_no_others():
    other = workload("red", "other", "node2")
    before = stored(PLAIN + flat("a") + web("a") + other)
    waiting = stored(PLAIN + web("a") + other, before)
    assert "network in use by the following pods: [red/web]" in condition_of(waiting, "UserDefinedNetwork/red/a")[2]
    assert names(waiting)[1:] == [("net1", "red_a")]
    # In the run in which its last user lets it go it goes, as with a user that is taken away.
    for text in (PLAIN + web() + other, PLAIN + other):
        assert "UserDefinedNetwork/red/a" not in stored(text, waiting).objects
    assert "UserDefinedNetwork/red/a" not in stored(PLAIN + web() + other, before).objects


def test_what_an_older_heddle_attached_by_itself_is_detached():
    before = stored(PLAIN + flat("a") + web("a"))
    del before.objects["Workload/red/web"].spec["networks"]
    assert names(before) == [("eth0", "default")]
    assert names(stored(PLAIN + flat("a") + web(), before)) == [("eth0", "default")]
    assert "UserDefinedNetwork/red/a" not in stored(PLAIN + web(), before).objects


def test_a_primary_network_cannot_be_selected():
    messages = refused(PRIMARY + web([{"name": "net"}]))
    assert len(messages) == 1
    assert (
        'metadata.annotations["k8s.v1.cni.cncf.io/networks"][0].name: UserDefinedNetwork/red/net is a prim'
        in messages[0]
    )


@pytest.mark.parametrize("network", [flat("a"), routed("a")])
def test_addresses_are_refused_where_the_network_allocates_them(network):
    messages = refused(PLAIN + network + web([{"name": "a", "ips": ["10.7.0.9/24"]}]))
    assert len(messages) == 1
    assert (
        "[0].ips: UserDefinedNetwork/red/a allocates the addresses of its interfaces itself; remove ips" in messages[0]
    )


def test_what_another_manifest_set_requests_waits_and_refuses_no_network():
    wrong = web([{"name": "a", "ips": ["10.7.0.9/24"]}])
    before = stored(PLAIN + wrong, manifest_set="tenant")
    shared = namespace("blue", primary=False)
    admin = stored(shared + flat("a", inside="blue"), before, manifest_set="admin")
    assert ready(admin)[1] == "NetworkAttachmentDefinitionNotFound"
    mine = stored(PLAIN + web([{"name": "a", "namespace": "blue", "ips": ["10.7.0.9/24"]}]), manifest_set="tenant")
    after = stored(shared + flat("a", inside="blue"), mine, manifest_set="admin")
    assert ready(after)[:2] == ("False", "InvalidNetworkSelection")
    assert "[0].ips: UserDefinedNetwork/blue/a allocates the addresses" in ready(after)[2]


def test_static_addresses_and_macs():
    chosen = [{"name": "a", "ips": ["192.0.2.20/24", "2001:db8::20/64"]}, {"name": "a", "mac": "02:00:00:00:00:07"}]
    found = interfaces(stored(PLAIN + secondary("a") + web(chosen)))[1:]
    assert [(one["addresses"], one["mac"]) for one in found] == [
        # The MAC follows from the first address, as in ovn-kubernetes.
        (["192.0.2.20/24", "2001:db8::20/64"], "0a:58:c0:00:02:14"),
        ([], "02:00:00:00:00:07"),
    ]
    with_ipam = stored(PLAIN + flat("a") + web([{"name": "a", "mac": "02:00:00:00:00:07"}]))
    assert (interfaces(with_ipam)[1]["addresses"], interfaces(with_ipam)[1]["mac"]) == (
        ["10.7.0.1/24"], "02:00:00:00:00:07",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("network", "first", "second", "message"),
    [
        (
            "wire",
            {"ips": ["192.0.2.20/24"]},
            {"ips": ["192.0.2.20/24"]},
            "address 192.0.2.20 is already that of red/web",
        ),
        (
            "wire",
            {"mac": "02:00:00:00:00:07"},
            {"mac": "02:00:00:00:00:07"},
            "MAC 02:00:00:00:00:07 is already that of",
        ),
        ("wire", {"ips": ["192.0.2.20/24"]}, {"mac": "0a:58:c0:00:02:14"}, "MAC 0a:58:c0:00:02:14 is already that of"),
        ("flat", {}, {"mac": "0a:58:0a:07:00:01"}, "MAC 0a:58:0a:07:00:01 is already that of red/web on red_flat"),
    ],
)
def test_a_taken_address_or_mac_waits_and_the_running_workload_keeps_it(network, first, second, message):
    base = PLAIN + secondary("wire") + flat("flat")
    running = base + web([{"name": network, **first}])
    snapshot = stored(running + workload("red", "a", "node1", [{"name": network, **second}]), stored(running))
    assert ready(snapshot, "red/a")[1] == "AllocationFailed"
    assert message in ready(snapshot, "red/a")[2]
    assert set(build_plan(snapshot)["workloads"]) == {"red/web"}


def test_one_workload_cannot_have_one_mac_twice_in_a_network():
    chosen = [{"name": "wire", "mac": "02:00:00:00:00:07"}] * 2
    snapshot = stored(PLAIN + secondary("wire") + web(chosen))
    assert "MAC 02:00:00:00:00:07 is already that of its interface net1 on red_wire" in ready(snapshot)[2]


def routes(snapshot):
    """The default routes of a workload, as (interface, family) -> gateway."""
    return {
        (one["name"], route["to"]): route["via"]
        for one in interfaces(snapshot)
        for route in one["routes"]
        if route["to"] in ("0.0.0.0/0", "::/0")
    }


@pytest.mark.parametrize(
    ("base", "own"),
    [(PRIMARY, ("ovn-udn1", "10.0.0.1", "fd00:10::1")), (PLAIN, ("eth0", "10.244.0.1", "fd00:10:244::1"))],
)
def test_a_requested_default_route_takes_the_place_of_the_primary_one_in_its_family(base, own):
    name, gateway, gateway6 = own
    text = base + flat("a") + secondary("wire")
    assert routes(stored(text + web("a"))) == {(name, "0.0.0.0/0"): gateway, (name, "::/0"): gateway6}
    snapshot = stored(text + web([{"name": "a", "default-route": ["10.7.0.200"]}]))
    assert routes(snapshot) == {("net1", "0.0.0.0/0"): "10.7.0.200", (name, "::/0"): gateway6}
    chosen = [
        {"name": "a", "default-route": ["fe80::1"]},
        {"name": "wire", "ips": ["192.0.2.20/24"], "default-route": ["192.0.2.1"]},
    ]
    assert routes(stored(text + web(chosen))) == {
        ("net1", "::/0"): "fe80::1", ("net2", "0.0.0.0/0"): "192.0.2.1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("requested", "fragment"),
    [
        (
            {"name": "a", "default-route": ["10.8.0.1"]},
            "the gateway 10.8.0.1 is in no subnet of the interface (10.7.0.0/24)",
        ),
        ({"name": "wire", "default-route": ["10.8.0.1"]}, "is in no subnet of the interface (it has none)"),
        (
            {"name": "wire", "ips": ["192.0.2.20/24"], "default-route": ["192.0.2.20"]},
            "the gateway 192.0.2.20 is the interface's own address",
        ),
        ({"name": "r", "default-route": ["10.10.0.1"]}, "is in no subnet of the interface (10.9.0.0/16)"),
    ],
)
def test_a_gateway_that_the_interface_cannot_reach_is_refused(requested, fragment):
    messages = refused(PLAIN + flat("a") + secondary("wire") + routed("r") + web([requested]))
    assert len(messages) == 1
    assert "[0].default-route: " in messages[0]
    assert fragment in messages[0]


def test_a_gateway_in_the_host_subnet_of_another_node_is_found_out_when_subnets_are_allocated():
    text = PLAIN + routed("r") + web([{"name": "r", "default-route": ["10.9.0.1"]}], "node2")
    snapshot = stored(text)
    assert ready(snapshot)[1] == "AllocationFailed"
    assert "net1: the gateway 10.9.0.1 is in no subnet of the interface (10.9.1.0/24)" in ready(snapshot)[2]
    near = stored(PLAIN + routed("r") + web([{"name": "r", "default-route": ["10.9.1.1"]}], "node2"))
    assert routes(near)["net1", "0.0.0.0/0"] == "10.9.1.1"


@pytest.mark.parametrize(
    ("base", "networks", "pair"),
    [
        (PRIMARY + flat("a", "10.0.0.128/25"), "a", ("10.0.0.128/25", "10.0.0.0/24")),
        (PRIMARY + flat("a", "100.65.7.0/24"), "a", ("100.65.7.0/24", "100.65.0.0/16")),
        (PLAIN + flat("a") + flat("b"), "a,b", ("10.7.0.0/24", "10.7.0.0/24")),
        (
            PLAIN + flat("a") + secondary("wire"),
            [{"name": "a"}, {"name": "wire", "ips": ["10.7.0.9/16"]}],
            ("10.7.0.0/16", "10.7.0.0/24"),
        ),
    ],
)
def test_networks_that_overlap_may_be_in_one_namespace_and_not_in_one_workload(base, networks, pair):
    """OKEP-5193, "IP Addressing": refuse a pod whose networks overlap."""
    snapshot = stored(base + web(networks) + workload("red", "other", "node1", "a" if "b" in networks else ""))
    assert ready(snapshot)[:2] == ("False", "NetworksOverlap")
    assert f"{pair[0]} of UserDefinedNetwork/red/" in ready(snapshot)[2]
    assert f"with {pair[1]} of UserDefinedNetwork/red/" in ready(snapshot)[2]
    assert "red/other" in build_plan(snapshot)["workloads"]


def test_a_running_workload_is_not_stopped_by_a_network_that_grows_into_another_one():
    primary = namespace("red") + layer3("red", "net", "10.1.0.0/16", 24)
    before = stored(primary + flat("a", "10.2.0.0/24") + web("a"))
    grown = primary.replace("hostSubnet: 24}", "hostSubnet: 24}, {cidr: '10.2.0.0/16', hostSubnet: 24}")
    assert "it runs, and would have to stop" in refused(grown + flat("a", "10.2.0.0/24") + web("a"), before)[0]
    assert refused(grown + flat("a", "10.2.0.0/24") + web(), before) == []


def test_a_persistent_address_stays_with_its_name_and_is_given_up_with_the_selection():
    keep = secondary("keep", "subnets: [10.7.0.0/24], ipam: {lifecycle: Persistent}", "blue")
    base = PLAIN + namespace("blue", primary=False) + keep
    first = stored(base + workload("red", "first", "node1", "blue/keep") + web("blue/keep"))
    assert interfaces(first)[1]["addresses"] == ["10.7.0.2/24"]
    between = stored(base, first)
    assert interfaces(stored(base + web("blue/keep"), between))[1]["addresses"] == ["10.7.0.2/24"]
    pool = "address/blue_keep/10.7.0.0/24"
    assert set(between.allocations[pool]) == {"red/first/blue/keep", "red/web/blue/keep"}
    assert set(stored(base, between, released=("red/first",)).allocations[pool]) == {"red/web/blue/keep"}
    without = stored(base + web(), first)
    assert set(without.allocations[pool]) == {"red/first/blue/keep"}


def test_a_virtual_machine_has_what_it_selects_beside_its_primary_network():
    machine = web([{"name": "a", "mac": "02:00:00:00:00:07"}]).replace("node: node1", "node: node1, kind: vm")
    snapshot = stored(PRIMARY + flat("a") + machine)
    assert [(one["network"], one["mac"]) for one in interfaces(snapshot)][1:] == [("red_a", "02:00:00:00:00:07")]
    assert [one["network"] for one in interfaces(snapshot)] == ["red_net", "red_a"]
    waiting = stored(PRIMARY + routed("r") + web("r").replace("node: node1", "node: node1, kind: vm"))
    assert ready(waiting)[1] == "NetworkOnOneNode"
