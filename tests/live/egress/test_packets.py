# SPDX-License-Identifier: Apache-2.0
"""Clients and routers of an Egress in the real kernel: what is there, and what packets come through, from where."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.egress_nat import apply_egress
from ansible_collections.heddle.ovn.plugins.module_utils.agent.metrics.egress_counters import (
    INVALID,
    MASQUERADED,
    egress_counters,
)
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import egress_nat as engine
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.protocol import fou
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.step import perform
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.live.coil.hosts import OUTSIDE, OWNER, apply, exchange, fleet, host, is_lost, run
from tests.live.egress.manifests import CLIENT, OTHER, plan, router, text
from tests.pipeline import plan_of, stored

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
NODE = host(1)
# Beyond the router of the hosts, and routed nowhere else.
FAR = {4: "9.9.9.9", 6: "2606:4700:4700::9999"}
NEAR = {4: "192.0.2.20", 6: "2001:db8::20"}


@pytest.fixture(scope="module")
def needs_fou():
    lacking = fou.lacking()
    if lacking:
        pytest.skip(f"this kernel lacks {', '.join(lacking)}")


@pytest.fixture
def node(needs_fou, tmp_path):
    """One host; what is outside knows its way to addresses of routers only, as in a fleet where BIRD exports them."""
    with fleet(1):
        run(OUTSIDE, "ip", "link", "add", "far", "up", "type", "dummy")
        for address in (f"{FAR[4]}/32", f"{FAR[6]}/128"):
            run(OUTSIDE, "ip", "address", "add", address, "dev", "far")
        try:
            yield Host(tmp_path / "mark")
        finally:
            apply(plan_of(""), "node1", NODE)


class Host:
    """The host, and what its agent does there."""

    def __init__(self, mark):
        self.mark = mark
        self.addresses = {}

    def apply(self, wanted, *, write=True):
        outcome = apply(wanted, "node1", NODE, write=write)
        with kernel.in_netns(NODE):
            outcome += apply_egress(wanted, "node1", f"{OWNER}-node1", write=write, mark_file=self.mark)
        there = wanted.get("egress", {}).get("workloads", {})
        self.addresses = {f"{one['namespace']}_{one['name']}": one["addresses"] for one in there.values()}
        for name, addresses in self.addresses.items():
            for address in addresses if "nat" in name else ():
                via = "2001:db8::1" if ":" in address else "192.0.2.1"
                run(OUTSIDE, "ip", "route", "replace", address, "via", via)
        return outcome

    def of(self, name, version):
        return self.addresses[name][version == 6]


@pytest.mark.parametrize("destinations", [["0.0.0.0/0", "::/0"], ["0.0.0.0/0", "10.0.0.0/8", "::/0", "fc00::/7"]],
                         ids=["outside", "around the routers as well"])  # fmt: skip
@pytest.mark.parametrize("version", [4, 6])
def test_outside_sees_the_router(node, version, destinations):
    """Also where destinations contain the addresses of the Egress and its routers, which no tunnel leads to."""
    wanted = plan(destinations=destinations)
    assert node.apply(wanted).changed
    assert exchange(CLIENT, OUTSIDE, FAR[version]) == node.of(router(), version)
    # Not a client: no external host has a route to it.
    assert is_lost(OTHER, OUTSIDE, FAR[version])
    with kernel.in_netns(NODE):
        found = {(one.kind, one.version): one for one in egress_counters(wanted, "node1")[router()]}
    assert {(kind, number) for kind in (MASQUERADED, INVALID) for number in (4, 6)} == {*found}
    assert found[MASQUERADED, version].packets > 0 < found[MASQUERADED, version].octets
    assert not found[MASQUERADED, 10 - version].packets


def test_second_run_changes_nothing(node):
    wanted = plan(replicas=2)
    assert node.apply(wanted).changed
    again = node.apply(wanted)
    assert not again.changed, again.changes
    assert not node.apply(wanted, write=False).changed


def test_rules_tables_and_tunnels_are_those_of_coil(node):
    wanted = plan(destinations=["0.0.0.0/0", "10.9.0.0/16", "::/0"])
    node.apply(wanted)
    rules = [line.split(":")[0] for line in run(CLIENT, "ip", "rule").splitlines()]
    assert rules == ["0", "1800", "1850", "1850", "1900", "2000", "2001", "2002", "2100", "32766", "32767"]
    virtual = wanted["egress"]["gateways"][next(iter(wanted["egress"]["gateways"]))]["addresses"]
    tunnel = f"fou4_{socket.inet_aton(virtual[0]).hex()}"
    assert run(CLIENT, "ip", "route", "show", "table", "117").split()[:3] == ["10.9.0.0/16", "dev", tunnel]
    assert run(CLIENT, "ip", "route", "show", "table", "118").split()[:3] == ["default", "dev", tunnel]
    link = run(CLIENT, "ip", "-d", "link", "show", tunnel)
    uplink = kernel_mtu(CLIENT, "eth0")
    assert f"mtu {uplink - 28} " in link and "encap-sport 5555 encap-dport 5555" in link and "ttl 225" in link
    assert "external" in run(CLIENT, "ip", "-d", "link", "show", "coil_ipip4")
    six = next(line for line in run(CLIENT, "ip", "-o", "-d", "link").splitlines() if ": fou6_" in line)
    assert "encaplimit none" in six and f"mtu {uplink - 48} " in six
    assert "2000:\tfrom all iif eth0 lookup 118" in run(router(), "ip", "rule")


def kernel_mtu(namespace, name):
    with kernel.in_netns(namespace):
        return kernel.read_links(None)[name]["mtu"]


@pytest.mark.parametrize("auto", [False, True])
def test_connection_survives_an_update_in_place(node, auto):
    """Destinations and source port change in a running client; TCP through the router goes on."""
    node.apply(plan(fouSourcePortAuto=auto))
    for version, everywhere in ((4, "0.0.0.0/0"), (6, "::/0")):
        with tcp(CLIENT, FAR[version]) as (near, far, seen):
            assert seen == node.of(router(), version)
            outcome = node.apply(plan(fouSourcePortAuto=not auto, destinations=[everywhere, "198.51.100.0/24"]))
            assert outcome.changed
            ping_pong(near, far)
            # The other family is no destination any more, and this one's first connection is still there.
            assert is_lost(CLIENT, OUTSIDE, FAR[10 - version])
            assert node.apply(plan(fouSourcePortAuto=auto)).changed
            ping_pong(near, far)
        assert exchange(CLIENT, OUTSIDE, FAR[10 - version]) == node.of(router(), 10 - version)


class tcp:
    """A TCP connection from a namespace to an external address, as a pair of sockets."""

    def __init__(self, source, address):
        self.source, self.address = source, address

    def __enter__(self):
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        with kernel.in_netns(OUTSIDE):
            self.listener = socket.create_server((self.address, 0), family=family)
        with kernel.in_netns(self.source):
            self.near = socket.socket(family)
        self.near.settimeout(20)
        self.near.connect((self.address, self.listener.getsockname()[1]))
        self.far, peer = self.listener.accept()
        self.far.settimeout(20)
        ping_pong(self.near, self.far)
        return self.near, self.far, peer[0]

    def __exit__(self, *_exception):
        for one in (self.near, self.far, self.listener):
            one.close()


def ping_pong(near, far):
    """More than a packet in each direction: segments have to fit into the tunnel."""
    data = bytes(range(256)) * 40
    for source, target in ((near, far), (far, near)):
        source.sendall(data)
        read = b""
        while len(read) < len(data):
            part = target.recv(65536)
            assert part
            read += part
        assert read == data


@pytest.mark.parametrize("version", [4, 6])
def test_without_affinity_flows_are_divided_over_routers(node, version):
    node.apply(plan(replicas=3, sessionAffinity="None", fouSourcePortAuto=True))
    routers = {node.of(router(number), version) for number in range(3)}
    seen = {exchange(CLIENT, OUTSIDE, FAR[version]) for _ in range(40)}
    assert seen <= routers and len(seen) > 1, seen


def test_with_affinity_a_client_stays_with_one_router(node):
    node.apply(plan(replicas=3, fouSourcePortAuto=True))
    assert len({exchange(CLIENT, OUTSIDE, FAR[4]) for _ in range(10)}) == 1


def test_lost_router_moves_its_own_clients_only(node):
    """TCP of a client through a router that stays goes on; a client of the one that goes has another one at once."""
    first = stored(text(replicas=2, clients=8))
    second = build_plan(stored(text(replicas=1, clients=8), first))
    node.apply(build_plan(first))
    names = [CLIENT, *(f"{CLIENT}{number}" for number in range(1, 8))]
    before = {name: exchange(name, OUTSIDE, FAR[4]) for name in names}
    kept = node.of(router(0), 4)
    assert set(before.values()) == {kept, node.of(router(1), 4)}, "both routers have clients"
    staying = next(name for name, seen in before.items() if seen == kept)
    with tcp(staying, FAR[4]) as (near, far, _seen):
        outcome = node.apply(second)
        assert "flow" in {change.kind for change in outcome.changes}
        ping_pong(near, far)
    assert {exchange(name, OUTSIDE, FAR[4]) for name in names} == {kept}
    assert not node.apply(second).changed


def test_large_packets_and_path_mtu(node):
    """A datagram without fragmentation is as large as the tunnel's MTU; beyond that the sender learns the MTU."""
    node.apply(plan())
    for version, overhead, headers in ((4, 28, 28), (6, 48, 48)):
        largest = kernel_mtu(CLIENT, "eth0") - overhead - headers
        argv = ("ping", f"-{version}", "-c1", "-W5", "-M", "do", "-s")
        # Afterwards no packet is lost because a link or a neighbour is new.
        exchange(CLIENT, OUTSIDE, FAR[version])
        run(CLIENT, *argv, str(largest), FAR[version])
        done = run(CLIENT, *argv, str(largest + 1), FAR[version], code=None)
        assert " 0% packet loss" not in done


def test_packets_of_no_client_are_not_translated(node):
    """A workload that sends to the router itself, without a tunnel, does not get out by it."""
    wanted = plan()
    node.apply(wanted)
    run(OTHER, "ip", "route", "add", FAR[4], "via", "169.254.1.1", "dev", "eth0", "onlink")
    assert is_lost(OTHER, OUTSIDE, FAR[4])
    with kernel.in_netns(OTHER):
        assert not fou.read_listeners() and not fou.read_tunnels()


@pytest.mark.parametrize("only", [False, True])
def test_originating_only(node, only):
    """Connections to a client from a destination of its Egress work with it only; its own are always translated."""
    wanted = plan({"egress_originating_only": only})
    node.apply(wanted)
    for version, via in ((4, "192.0.2.1"), (6, "2001:db8::1")):
        address = node.of(CLIENT, version)
        run(OUTSIDE, "ip", "route", "replace", address, "via", via)
        if only:
            assert exchange(OUTSIDE, CLIENT, address) == NEAR[version]
        else:
            assert is_lost(OUTSIDE, CLIENT, address)
        assert exchange(CLIENT, OUTSIDE, FAR[version]) == node.of(router(), version)
    assert not node.apply(wanted).changed
    # Off again, nothing of it is left.
    node.apply(plan())
    assert "1000:" not in run(CLIENT, "ip", "rule") and "mark" not in run(CLIENT, "nft", "list", "ruleset")


def test_removal_leaves_nothing(node):
    node.apply(plan(egress=False))
    before = remains(CLIENT)
    node.apply(plan())
    assert remains(CLIENT) != before
    assert node.apply(plan(egress=False)).changed
    assert remains(CLIENT) == before
    assert router() not in kernel.namespaces()
    assert not node.mark.exists()
    assert not node.apply(plan(egress=False)).changed


def remains(namespace):
    parts = [run(namespace, "ip", "-o", "link"), run(namespace, "ip", "rule"), run(namespace, "ip", "-6", "rule")]
    parts += [run(namespace, "ip", family, "route", "show", "table", "all", "proto", "30") for family in ("-4", "-6")]
    parts += [run(namespace, "nft", "list", "ruleset"), run(namespace, "ip", "fou", "show")]
    return "".join(parts)


@pytest.mark.parametrize("steps", [1, 4, 9])
def test_run_that_was_cut_off_is_completed(node, monkeypatch, steps):
    """After so many steps in each namespace, of creation and of removal."""
    wanted, nothing = plan(), plan(egress=False)
    node.apply(nothing)
    before = remains(CLIENT)
    for target in (wanted, nothing):
        with monkeypatch.context() as patched:
            patched.setattr(engine, "perform", lambda all_steps, *, write: perform(all_steps[:steps], write=write))
            # What comes after the last namespace does not happen.
            patched.setattr(Path, "unlink", lambda *_arguments, **_named: None)
            node.apply(target)
        node.apply(target)
        assert not node.apply(target).changed
        if target is wanted:
            assert exchange(CLIENT, OUTSIDE, FAR[4]) == node.of(router(), 4)
    assert remains(CLIENT) == before


def test_lost_parts_come_back(node):
    """What a user or an accident removed is what the next run adds."""
    wanted = plan()
    node.apply(wanted)
    run(CLIENT, "ip", "rule", "del", "pref", "2100")
    run(CLIENT, "nft", "delete", "table", "inet", "heddle-egress")
    run(router(), "ip", "route", "flush", "table", "118")
    outcome = node.apply(wanted)
    assert {change.kind for change in outcome.changes} == {"rule", "route", "table", "chain"}
    assert exchange(CLIENT, OUTSIDE, FAR[4]) == node.of(router(), 4)


@pytest.mark.parametrize("version", [4, 6])
def test_network_beside_the_host_and_other_workloads_are_reached_directly(node, version):
    """Destinations are only those of the Egress: private ranges stay in the cluster."""
    node.apply(plan(destinations=["0.0.0.0/0", "::/0"]))
    wanted = plan()
    there = wanted["coil"]["workloads"]
    other = next(one for name, one in there.items() if name.endswith("/plain"))["addresses"][version == 6]
    own = next(one for name, one in there.items() if name.endswith("/web"))["addresses"][version == 6]
    assert exchange(CLIENT, OTHER, other) == own
