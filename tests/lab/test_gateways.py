# SPDX-License-Identifier: Apache-2.0
"""External connectivity of networks, seen from both ends, and repair of a host after tampering."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import time
from contextlib import contextmanager, suppress

import pytest

from tests.lab.conftest import MANIFESTS, PATIENCE, REPORT
from tests.lab.remote_program import RemoteProgram

PORT, OWN_PORT, IDENTIFIER = 7001, 40000, 4242
TWIN = """
apiVersion: v1
kind: Namespace
metadata: {name: %(name)s, labels: {k8s.ovn.org/primary-user-defined-network: ""}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: %(name)s}
spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.55.0.0/24, "fd00:10:55::/64"]}}
---
apiVersion: heddle.dev/v1
kind: Workload
metadata: {name: w, namespace: %(name)s}
spec: {node: node1}
"""
TWINS = ("twin-a", "twin-b")
# Larger than any network's MTU but those with jumbo frames, and no larger than the provider network's.
LARGE = {4: 1500 - 28, 6: 1500 - 48}


def external(number: int) -> str:
    prefix = os.environ.get("LAB_NETWORK_PREFIX") or "198.18"
    prefix6 = os.environ.get("LAB_NETWORK_PREFIX6") or "fd00:6864"
    return f"{prefix}.2.20" if number == 4 else f"{prefix6}:2::20"


def node_address(number: int) -> str:
    return external(number).removesuffix("20") + "1"


class Conversation(RemoteProgram):
    """conversation.py on a host."""

    def __init__(self, lab, host: str, *words, namespace: str = "") -> None:
        super().__init__(lab, host, "conversation.py", *words, namespace=namespace)


@contextmanager
def server(lab):
    """A server on the external host; yields a list that holds what it saw when the block is over."""
    seen = []
    one = Conversation(lab, "external", "serve", PORT, external(4), external(6))
    assert one.process.stdout.readline() == "ready\n", one.process.stderr.read()
    try:
        yield seen
    finally:
        seen += one.end()


@pytest.fixture(scope="module")
def twins(lab, tmp_path_factory):
    """Two networks with one subnet, and on node1 a workload in each, both with the same address."""
    manifests = shutil.copytree(MANIFESTS, tmp_path_factory.mktemp("twins") / "manifests")
    (manifests / "twins.yml").write_text("---".join(TWIN % {"name": name} for name in TWINS))
    lab.play("networks.yml", manifests=manifests)
    yield TWINS
    lab.play("networks.yml")


def identifiers(lab) -> tuple[int, int]:
    """Echo identifiers of the twins; the userspace datapath does not translate them, so there they must differ."""
    return (IDENTIFIER, IDENTIFIER + 1) if in_userspace(lab) else (IDENTIFIER, IDENTIFIER)


def assert_separate(lab, workloads: dict[str, str], ids: tuple[int, int], number: int) -> str:
    """Have two workloads of node1 with one address, by network namespace, hold equal connections at the same time.

    Their echoes have the identifiers `ids`. Return the connections that the provider bridge tracks meanwhile.
    """
    twins = tuple(workloads)
    with server(lab) as seen:
        talks = {
            name: Conversation(
                lab, "node1", "talk", name, external(number), PORT, OWN_PORT, identifier, namespace=workloads[name]
            )
            for name, identifier in zip(twins, ids, strict=True)
        }
        # Both have all connections open before either asks once more.
        first = {name: talk.line() for name, talk in talks.items()}
        tracked = lab.ssh("node1", "ovs-appctl", "dpctl/dump-conntrack", "zone=64000")
        for talk in talks.values():
            talk.go_on()
        second = {name: talk.line() for name, talk in talks.items()}
        for talk in talks.values():
            talk.go_on()
            talk.end()
    one, two = (first[name] for name in twins)
    assert one["own"] == two["own"]
    for how in ("tcp", "udp"):
        reported = {}
        for name in twins:
            (asked, ours), (again, still) = first[name][how], second[name][how]
            assert (asked, again) == (f"{name} {how} 1", f"{name} {how} 2"), "each reply reaches its own"
            assert ours == still
            assert ours[0] == node_address(number)
            reported[name] = ours[1]
        assert reported[twins[0]] != reported[twins[1]], "the server sees two ports of one address"
        # The same from the other end.
        for name in twins:
            for turn in (1, 2):
                assert [how, f"{name} {how} {turn}", [node_address(number), reported[name]]] in seen
    for name in twins:
        assert [first[name]["icmp"], second[name]["icmp"]] == [f"{name} icmp 1", f"{name} icmp 2"]
    return tracked


@pytest.mark.parametrize("number", [4, 6], ids=["IPv4", "IPv6"])
def test_overlapping_connections_of_two_networks_stay_separate(lab, twins, number):
    tracked = assert_separate(lab, {name: f"{name}_w" for name in twins}, identifiers(lab), number)
    # Each has entries with a mark of its own, so a reply is returned to its network.
    marks = set(re.findall(rf"^tcp,.*{re.escape(external(number))}.*dport={PORT}.*mark=(\d+)", tracked, re.MULTILINE))
    assert len(marks) == 2, tracked


def in_userspace(lab) -> bool:
    return "netdev" in lab.ssh("node1", "ovs-vsctl", "get", "Bridge", "br-ex", "datapath_type")


@pytest.mark.parametrize("number", [4, 6], ids=["IPv4", "IPv6"])
def test_sctp_through_a_gateway(lab, number):
    if in_userspace(lab):
        pytest.skip("SCTP: connection tracking of Open vSwitch's userspace datapath does not know it")
    with server(lab) as seen:
        asked = Conversation(lab, "node1", "associate", "red", external(number), PORT, namespace="red_red1")
        answer = asked.line()
        asked.end()
    if answer is None:
        pytest.skip("SCTP: the kernel of node1 does not have it")
    text, (address, port) = answer
    assert (text, address) == ("red sctp", node_address(number))
    assert ["sctp", "red sctp", [address, port]] in seen


@pytest.mark.parametrize("number", [4, 6], ids=["IPv4", "IPv6"])
def test_external_pmtu_discovery(lab, number):
    network, namespace = "red_red", "red_red1"
    mtu = lab.plan()["networks"][network]["mtu"]
    assert mtu < 1500
    # Open vSwitch's userspace datapath writes a TCP checksum into an ICMPv6 error about TCP, so no receiver can
    # match it to a connection.
    by_tcp = number == 4 or not in_userspace(lab)
    flag = f"-{number}"
    forget = ("ip", flag, "route", "flush", "cache")
    lab.ssh("external", *forget)
    # Without this, TCP would negotiate a segment size that fits, and path MTU discovery would not be tested.
    prefix = f"{external(number)}/{32 if number == 4 else 128}"
    way = re.search(
        r"via (\S+) dev (\S+)", lab.ssh("node1", "ip", flag, "-n", namespace, "route", "get", external(number))
    )
    route = ("ip", flag, "-n", namespace, "route")
    lab.ssh("node1", *route, "add", prefix, "via", way[1], "dev", way[2], "advmss", str(LARGE[number] - 12))
    try:
        with server(lab) as seen:
            asked = Conversation(
                lab, "node1", "receive", "udp", external(number), PORT, LARGE[number], namespace=namespace
            )
            assert asked.line() == 0
            asked.end()
            reported = lab.ssh("external", "ip", flag, "route", "get", node_address(number))
            if by_tcp:
                lab.ssh("external", *forget)
                fetched = Conversation(
                    lab, "node1", "fetch", "tcp", external(number), PORT, 300_000, namespace=namespace
                )
                assert fetched.line() == 300_000
                fetched.end()
        assert f"mtu {mtu}" in reported, "the sender learned the MTU"
        assert any(line[0] == "refused" for line in seen), "the sender's kernel knows it then"
        assert not by_tcp or ["path", "tcp give 300000", mtu] in seen
    finally:
        lab.ssh("node1", *route, "del", prefix)
        lab.ssh("external", *forget)


def has_vrf(lab) -> bool:
    return "vrf" in lab.ssh("node2", "ip", "-d", "-o", "link", "show", "type", "vrf")


# Tampering on node2, and the audit's message about it.
TAMPERING = {
    "flow": (
        "ovs-ofctl del-flows --strict br-ex priority=50,ip,dl_dst=$(cat /sys/class/net/br-ex/address)",
        "openflow",
    ),
    "route": ("ip route del 10.96.0.0/16", "10.96.0.0/16"),
    "route of IPv6": ("ip -6 route del fd00:10:96::/112", "fd00:10:96::/112"),
    "firewall": ("nft delete table inet heddle", "nftables"),
    "sysctl": ("sysctl -qw net.ipv4.conf.ovn-k8s-mp0.rp_filter=1", "net/ipv4/conf/ovn-k8s-mp0/rp_filter"),
    "address": ("ip address del 169.254.0.2/17 dev br-ex", "169.254.0.2/17"),
    "neighbour": ("ip neighbour del 169.254.0.4 dev br-ex", "169.254.0.4"),
    "port": ("ovs-vsctl del-port br-int ovn-k8s-mp0", "ovn-k8s-mp0"),
}
WITH_VRFS = {
    "rule": (
        'ip rule del fwmark $(ip -j rule | grep -o \'"fwmark":"[^"]*","table\' | head -1 | cut -d\'"\' -f4)',
        "rule",
    ),
    "VRF": ("ip link del $(ip -o link show type vrf | head -1 | cut -d: -f2)", "vrf"),
}


IN_USERSPACE = {"uplinks": ("nft delete table inet heddle-userspace", "userspace-interfaces")}


def tampering(lab) -> dict:
    return {**TAMPERING, **(WITH_VRFS if has_vrf(lab) else {}), **(IN_USERSPACE if in_userspace(lab) else {})}


def tamper(lab, what: dict) -> None:
    for command, _reported in what.values():
        lab.ssh("node2", "sh", "-c", shlex.quote(command))


@pytest.fixture
def unwatched(lab):
    """node2 without the service that would repair it at once."""
    lab.ssh("node2", "systemctl", "stop", "heddle-host")
    # It has stopped with that service, and other hosts take the mesh for lost after some seconds.
    lab.ssh("node2", "systemctl", "start", "heddle-mesh")
    yield
    lab.ssh("node2", "systemctl", "start", "heddle-host")


def test_tampering_is_found_and_repaired_by_heddle_host(lab, unwatched):
    for name, (command, reported) in tampering(lab).items():
        tamper(lab, {name: (command, reported)})
        shown = lab.try_ssh("node2", "heddle-host", "diff")
        assert (shown.returncode, reported.lower() in shown.stdout.lower()) == (1, True), (name, shown.stdout)
        lab.ssh("node2", "heddle-host", "apply")
        assert lab.try_ssh("node2", "heddle-host", "diff").returncode == 0, name


@pytest.mark.long
def test_a_node_that_forwards_external_hosts_to_services_fails_verify_and_is_named(lab, unwatched):
    lab.play("verify.yml")
    lab.ssh("node2", "nft", "delete", "table", "inet", "heddle")
    try:
        assert lab.play("verify.yml", success=False).code == 2
        report = json.loads((REPORT / "verify.json").read_text())
        found = [one for one in report["north_south"]["flows"] if one["kind"] == "external host to service"]
        assert {one["family"] for one in found} == {4, 6}
        failed = {one["through"] for one in found if one["result"] == "failed"}
        assert failed == {"node2"}, report["failures"]
    finally:
        lab.play("networks.yml")
    lab.play("verify.yml")


# What the kernel reports to the host's service as it happens.
REPORTED = ("route", "route of IPv6", "firewall", "sysctl", "address", "rule", "uplinks")


def test_reported_kernel_changes_are_repaired_without_a_playbook(lab):
    for name, what in tampering(lab).items():
        if name in REPORTED:
            tamper(lab, {name: what})
            deadline = time.monotonic() + PATIENCE
            while (shown := lab.try_ssh("node2", "heddle-host", "diff")).returncode:
                assert time.monotonic() < deadline, (name, shown.stdout)
                time.sleep(0.5)


@pytest.mark.long
def test_combined_tampering_is_repaired_and_foreign_objects_stay(lab, unwatched):
    what = tampering(lab)
    foreign = {
        "a table": ("nft add table inet somebodys", "nft list table inet somebodys", "nft delete table inet somebodys"),
        "a flow": (
            "ovs-ofctl add-flow br-ex cookie=0x99,priority=77,ip,nw_dst=203.0.113.77,actions=drop",
            "ovs-ofctl dump-flows br-ex cookie=0x99/-1 | grep 203.0.113.77",
            "ovs-ofctl del-flows br-ex cookie=0x99/-1",
        ),
        "a rule": (
            "ip rule add to 203.0.113.78 table 78", "ip rule | grep 203.0.113.78", "ip rule del to 203.0.113.78",
        ),
        "a route": (
            "ip route add 203.0.113.79 dev ovn-k8s-mp0", "ip route | grep 203.0.113.79", "ip route del 203.0.113.79",
        ),
    }  # fmt: skip
    try:
        for add, _look, _remove in foreign.values():
            lab.ssh("node2", "sh", "-c", shlex.quote(add))
        # The port's own things go with it.
        what.pop("port")
        tamper(lab, what)
        assert lab.play("audit.yml", success=False).code == 2
        report = json.loads((REPORT / "audit.json").read_text())["hosts"]
        drift, others = (json.dumps(report["node2"][key]).lower() for key in ("drift", "foreign"))
        for name, (_command, reported) in what.items():
            assert reported.lower() in drift, name
        for mark in ("somebodys", "203.0.113.77", "203.0.113.78"):
            assert mark in others, others
        assert not report["node1"]["drift"]
        assert lab.play("site.yml").changed["node2"] >= 1
        lab.play("audit.yml")
        for _add, look, _remove in foreign.values():
            lab.ssh("node2", "sh", "-c", shlex.quote(look))
    finally:
        for _add, _look, remove in foreign.values():
            with suppress(AssertionError):
                lab.ssh("node2", "sh", "-c", shlex.quote(remove))
        lab.play("networks.yml")
