# SPDX-License-Identifier: Apache-2.0
"""Workloads with addresses of pools in the real kernel: links, tables 116 and 119, packets, what is foreign."""

from __future__ import annotations

import os

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import host_route
from tests.live.coil.hosts import OUTSIDE, apply, exchange, fleet, host, is_lost, refusal, run
from tests.pipeline import namespace, plan_of, workload

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
NODE = host(1)
NAMES = f"t{os.getpid()}"
# ICMP and ICMPv6 (RFC 792, RFC 4443): destination unreachable.
UNREACHABLE = {False: 3, True: 1}
BESIDE = {4: ("192.0.2.1", "192.0.2.20"), 6: ("2001:db8::1", "2001:db8::20")}
FAMILIES = {
    "dual": "{ipv4: 10.2.0.0/24, ipv6: 'fd02::/120'}",
    "ipv4": "{ipv4: 10.2.0.0/24}",
    "ipv6": "{ipv6: 'fd02::/120'}",
}


def manifests(count: int, subnets: str = FAMILIES["dual"]) -> str:
    text = (
        "---\napiVersion: coil.cybozu.com/v2\nkind: AddressPool\nmetadata: {name: pool1}\n"
        f"spec: {{blockSizeBits: 1, subnets: [{subnets}]}}\n"
    )
    text += namespace(NAMES, primary=False).rstrip() + "\n  annotations: {coil.cybozu.com/pool: pool1}\n"
    return text + "".join(workload(NAMES, f"w{number}", "node1") for number in range(count))


def inside(number: int) -> str:
    return f"{NAMES}_w{number}"


@pytest.fixture
def node():
    with fleet(1):
        try:
            yield NODE
        finally:
            apply(plan_of(""), "node1", NODE)


def routes(table: int, version: int = 4) -> list[str]:
    text = run(NODE, "ip", f"-{version}", "route", "show", "table", str(table), code=None)
    return sorted(" ".join(line.split()) for line in text.splitlines())


@pytest.mark.parametrize("families", FAMILIES)
def test_packets_in_both_directions(node, families):
    plan = plan_of(manifests(3, FAMILIES[families]))
    assert apply(plan, "node1", node).changed
    assert not apply(plan, "node1", node).changed
    own = [plan["coil"]["workloads"][f"{NAMES}/w{number}"]["addresses"] for number in range(3)]
    # The router has the routes that BIRD gives it in a fleet.
    for block in plan["coil"]["blocks"]["node1"]:
        run(OUTSIDE, "ip", "route", "add", block, "via", "2001:db8::1" if ":" in block else "192.0.2.1")
    for place, address in enumerate(own[0]):
        near, host_address, outside = own[2][place], *BESIDE[6 if ":" in address else 4]
        # No NAT: the target sees the asker's own address.
        assert exchange(OUTSIDE, inside(0), address) == outside
        assert exchange(inside(0), OUTSIDE, outside) == address
        assert exchange(inside(2), inside(0), address) == near
        assert exchange(inside(0), inside(2), near) == address
        assert exchange(inside(0), node, host_address) == address
        assert exchange(node, inside(0), address)
        # An address that no workload has ends at the host, and does not go round by the default route.
        free = "fd02::3" if ":" in address else "10.2.0.3"
        assert refusal(OUTSIDE, free) == UNREACHABLE[":" in address]
        # A router that does not know the way back gets no answer, so it is the way that counts.
        run(OUTSIDE, "ip", "route", "add", "blackhole", host_route(address))
        assert is_lost(inside(0), OUTSIDE, outside)


@pytest.mark.parametrize("userspace", [False, True])
def test_a_workload_that_sends_first_finds_its_gateway(node, userspace):
    """A host that sends first makes itself known to the workload, for a time."""
    plan = plan_of(manifests(1))
    apply(plan, "node1", node, userspace=userspace)
    (address, _six) = plan["coil"]["workloads"][f"{NAMES}/w0"]["addresses"]
    assert exchange(inside(0), node, "192.0.2.1") == address
    assert not apply(plan, "node1", node, userspace=userspace).changed


def test_a_link_whose_gateway_answers_no_arp_is_repaired(node):
    plan = plan_of(manifests(1))
    apply(plan, "node1", node)
    (link,) = run(node, "sh", "-c", "cd /sys/class/net; echo *_c").split()
    run(node, "sysctl", "-qw", f"net.ipv4.conf.{link}.arp_ignore=8")
    (change,) = apply(plan, "node1", node).changes
    assert (change.before, change.after) == (
        {"host answers ARP": False, "host receives packets": True},
        {"host answers ARP": True, "host receives packets": True},
    )
    assert not apply(plan, "node1", node).changed


def test_what_a_host_has(node):
    apply(plan_of(manifests(1)), "node1", node)
    assert routes(119) == ["10.2.0.0/31 dev lo proto 30"]
    assert [line.partition(" pref")[0] for line in routes(119, 6)] == ["fd02::/127 dev lo proto 30 metric 1024"]
    four = routes(116)
    assert four[0].startswith("10.2.0.0 dev ") and four[0].endswith(" proto 30 scope link")
    assert four[1].startswith("unreachable 10.2.0.0/31 proto 30 metric 4278198272")
    for version in ("-4", "-6"):
        rules = run(node, "ip", version, "rule")
        assert "2000:\tfrom all lookup 116 proto 30" in rules
        assert "2001:\tfrom all lookup 120 proto 30" in rules
    assert run(inside(0), "ip", "-4", "route").split("\n")[:2] == [
        "default via 169.254.1.1 dev eth0 proto 85 ", "169.254.1.1 dev eth0 proto 85 scope link ",
    ]  # fmt: skip
    assert "default via fe80::1 dev eth0" in run(inside(0), "ip", "-6", "route")
    assert "mtu 1500" in run(inside(0), "ip", "link", "show", "eth0")


def test_the_gateway_may_be_the_address_of_the_node(node):
    """Newer versions of Coil have it so. The setting may change while workloads run."""
    with_address = plan_of(manifests(1), settings={"coil": {"gateway": "node_address"}})
    with_address["nodes"]["node1"]["addresses"] = ["192.0.2.1/24", "2001:db8::1/64"]
    (address, _six) = with_address["coil"]["workloads"][f"{NAMES}/w0"]["addresses"]
    for plan, gateway in (
        (plan_of(manifests(1)), "169.254.1.1"), (with_address, "192.0.2.1"), (plan_of(manifests(1)), "169.254.1.1")
    ):  # fmt: skip
        assert apply(plan, "node1", node).changed
        assert run(inside(0), "ip", "-4", "route").split("\n")[0] == f"default via {gateway} dev eth0 proto 85 "
        assert "default via fe80::1 dev eth0" in run(inside(0), "ip", "-6", "route")
        # The host reaches the workload by that address, and the other way round.
        seen = exchange(node, inside(0), address)
        assert seen == gateway
        assert exchange(inside(0), node, "192.0.2.1") == address
        assert not apply(plan, "node1", node).changed


def test_links_have_the_mtu_of_the_uplink(node):
    run(node, "ip", "link", "set", "eth1", "mtu", "1400")
    apply(plan_of(manifests(1)), "node1", node)
    assert "mtu 1400" in run(inside(0), "ip", "link", "show", "eth0")


def test_pools_gone_leave_nothing(node):
    before = [run(node, "ip", *argv) for argv in (["rule"], ["-6", "rule"], ["-br", "link"], ["route"])]
    apply(plan_of(manifests(2)), "node1", node)
    run(node, "ip", "route", "add", "10.2.9.0/24", "via", "192.0.2.20", "table", "120", "proto", "bird")
    assert apply(plan_of(""), "node1", node).changed
    assert [run(node, "ip", *argv) for argv in (["rule"], ["-6", "rule"], ["-br", "link"], ["route"])] == before
    assert [routes(table, version) for table in (116, 119, 120) for version in (4, 6)] == [[]] * 6
    assert not apply(plan_of(""), "node1", node).changed


def test_a_host_without_pools_is_not_touched(node):
    """Tables and rules of others stay, whatever their numbers are, as long as there is no pool."""
    run(node, "ip", "route", "add", "198.51.100.0/24", "dev", "eth1", "table", "119")
    run(node, "ip", "rule", "add", "pref", "2000", "table", "119")
    assert not apply(plan_of(""), "node1", node).changed
    assert routes(119) == ["198.51.100.0/24 dev eth1 scope link"]


def test_own_tables_and_foreign_routes(node):
    plan = plan_of(manifests(1))
    apply(plan, "node1", node)
    # Table 119 is BIRD's source, and owned as a whole; in table 116 routes of others stay and are reported.
    run(node, "ip", "route", "add", "198.51.100.0/24", "dev", "eth1", "table", "119")
    run(node, "ip", "route", "add", "198.51.100.0/24", "dev", "eth1", "table", "116")
    run(node, "ip", "route", "del", "10.2.0.0", "table", "116")
    run(node, "ip", "rule", "del", "pref", "2000")
    found = apply(plan, "node1", node, write=False)
    assert {(change.action, change.kind) for change in found.changes} == {
        ("delete", "route"), ("create", "route"), ("create", "rule"),
    }  # fmt: skip
    assert [one.name for one in found.foreign] == ["table 116 198.51.100.0/24"]
    assert apply(plan, "node1", node).changes == found.changes
    assert routes(119) == ["10.2.0.0/31 dev lo proto 30"]
    assert "198.51.100.0/24 dev eth1 scope link" in routes(116)
    assert exchange(node, inside(0), "10.2.0.0")


def test_workloads_of_coil_v1_are_reached_until_they_are_replaced(node):
    """Coil v1 has the same protocol and tables: its routes stay in reserved blocks, and go with the reservation."""
    run(node, "ip", "link", "add", "veth0v1", "type", "veth", "peer", "name", "eth0v1")
    run(node, "ip", "link", "set", "veth0v1", "up")
    run(node, "ip", "link", "set", "eth0v1", "up")
    for table, to, device in (("116", "10.2.0.1", "veth0v1"), ("119", "10.2.0.0/31", "lo")):
        run(node, "ip", "route", "add", to, "dev", device, "table", table, "proto", "30")
    block = (
        "---\napiVersion: coil.cybozu.com/v2\nkind: AddressBlock\nmetadata:\n  name: pool1-0-v1\n  labels: "
        "{coil.cybozu.com/pool: pool1, coil.cybozu.com/node: node1, coil.cybozu.com/reserved: 'true'}\nindex: 0\n"
    )
    plan = plan_of(manifests(1) + block)
    apply(plan, "node1", node)
    assert not apply(plan, "node1", node).changed
    assert "10.2.0.1 dev veth0v1 proto 30 scope link" in routes(116)
    assert routes(119) == ["10.2.0.0/31 dev lo proto 30", "10.2.0.2/31 dev lo proto 30"]
    named = manifests(1).replace("{node: node1}", "{node: node1, addresses: [10.2.0.1]}")
    assert "addresses" in named
    apply(plan_of(named), "node1", node)
    (route,) = [line for line in routes(116) if line.startswith("10.2.0.1 ")]
    assert "veth0v1" not in route
    assert exchange(node, inside(0), "10.2.0.1")


def test_a_workload_that_goes_takes_its_routes(node):
    apply(plan_of(manifests(3)), "node1", node)
    apply(plan_of(manifests(1)), "node1", node)
    assert routes(119) == ["10.2.0.0/31 dev lo proto 30"]
    assert len(routes(116)) == 2


@pytest.mark.parametrize("cut", [0, 1, 3, 6, 9, 12])
def test_cut_off_at_any_point(node, cut, monkeypatch):
    """A run that ends after some steps is completed by the next one."""
    from ansible_collections.heddle.ovn.plugins.module_utils.netlink import routed_workloads, workload_links
    from ansible_collections.heddle.ovn.plugins.module_utils.netlink.step import perform

    left = cut

    def cut_off(steps, *, write):
        nonlocal left
        taken, left = list(steps)[:left], left - len(list(steps))
        left = max(left, 0)
        return perform(taken, write=write)

    plan = plan_of(manifests(2))
    with monkeypatch.context() as patched:
        for module in (workload_links, routed_workloads):
            patched.setattr(module, "perform", cut_off)
        apply(plan, "node1", node)
    apply(plan, "node1", node)
    assert not apply(plan, "node1", node).changed
    assert exchange(node, inside(1), "10.2.0.1")
