# SPDX-License-Identifier: Apache-2.0
"""Packets between hosts with and without a transit router (OKEP-5094, "Some of the scenarios that we care about").

Two zones, each with its own databases and ovn-northd: node1 is upgraded, node3 is not. What leaves one zone through a
port with a tunnel key arrives in the other at the port with that key; the tests follow it on both sides.
"""

from __future__ import annotations

import ipaddress
import re

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import link_local_address
from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import layer2_switch, transit_router
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.layer2_steps import (
    change_version,
    clean_up,
    drain,
)
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.store.layer2_version import (
    GATEWAY_ROUTERS,
    TRANSIT_ROUTER,
)
from tests.live.conftest import Server, complaints, start, stop, wait_for
from tests.live.topology.zone import Zone
from tests.pipeline import EVERYWHERE, decide, layer2, namespace, with_gateways, workload

# After the clean-up each node is asked for the join addresses of all others.
SETTINGS = {**EVERYWHERE, "layer2_topology": "gateway-router"}
EARLY = namespace("red") + layer2("red", "net", "203.203.0.0/24", "2010:100:200::/60") + workload("red", "c", "node3")
LATE = EARLY + workload("red", "late", "node1")
SWITCH, ROUTER = layer2_switch("red_net"), transit_router("red_net")
GATEWAY = {4: "203.203.0.1", 6: "2010:100:200::1"}
TRANSIT_MAC = "0a:58:cb:cb:00:01"
# By node: MAC of its gateway router, its join addresses.
GATEWAY_MAC = {number: f"0a:58:64:41:00:{number + 1:02x}" for number in (1, 2, 3)}
JOIN = {number: {4: f"100.65.0.{number + 1}", 6: f"fd99::{number + 1}"} for number in (1, 2, 3)}
OUTWARD, TO_HOST = {4: "169.254.0.11", 6: "fd69::b"}, {4: "169.254.0.12", 6: "fd69::c"}
# What Services see of processes of a node.
PROCESSES = {4: "169.254.0.2", 6: "fd69::2"}
BROADCAST = "ff:ff:ff:ff:ff:ff"
FAMILIES = (4, 6)


class Side(Zone):
    """The zone of one node, at some stage of the upgrade."""

    def __init__(self, tools, folder, node):
        folder.mkdir()
        self.tools, self.node, self.folder = tools, node, folder
        self.northbound, self.southbound = (
            Server(tools, folder, name, tools.schema(name)) for name in ("OVN_Northbound", "OVN_Southbound")
        )
        databases = f"--ovnnb-db={self.northbound.remote}", f"--ovnsb-db={self.southbound.remote}"
        self.northd = start(tools, folder, "northd", "ovn-northd", *databases)
        wait_for(lambda: self.southbound.rows("SB_Global"), "ovn-northd", self.northd)
        encap = {"type": "geneve", "ip": "198.18.1.99", "chassis_name": f"chassis-of-{node}"}
        chassis = {"name": f"chassis-of-{node}", "encaps": ["named-uuid", "encap"]}
        self.southbound.transact(
            {"op": "insert", "table": "Encap", "uuid-name": "encap", "row": encap},
            {"op": "insert", "table": "Chassis", "row": chassis},
        )

    def end(self):
        for process in (self.northd, self.northbound.process, self.southbound.process):
            stop(process)

    def tunnel_keys(self):
        rows = self.southbound.rows("Port_Binding", "logical_port", "tunnel_key")
        return {row["logical_port"]: row["tunnel_key"] for row in rows}

    def packet(self, datapath, inport, match):
        """The output ports of a traced packet: [(port, text of all that was changed on it)]."""
        flow = f'inport == "{inport}" && {match}'
        text = self.tools.run("ovn-trace", f"--db={self.southbound.remote}", "--minimal", datapath, flow)
        outputs, changed = [], []
        for line in text.splitlines():
            if "output(" in line:
                outputs.append((line.partition('output("')[2].partition('"')[0], " ".join(changed)))
            changed.append(line)
        return outputs

    def echo(self, datapath, inport, source, target, number):
        """The same for an echo request; `source` and `target` are (MAC, address)."""
        kind, request = ("ip4", "icmp4.type == 8") if number == 4 else ("ip6", "icmp6.type == 128")
        return self.packet(
            datapath, inport,
            f"eth.src == {source[0]} && eth.dst == {target[0]} && ip.ttl == 64 && "
            f"{kind}.src == {source[1]} && {kind}.dst == {target[1]} && {request}",
        )  # fmt: skip

    def who_has(self, inport, source, address):
        """The answers to an ARP request from a port: [(port the answer comes out at, its changes)]."""
        return self.packet(
            SWITCH, inport,
            f"eth.src == {source[0]} && eth.dst == {BROADCAST} && arp.op == 1 && arp.sha == {source[0]} && "
            f"arp.spa == {source[1]} && arp.tpa == {address}",
        )  # fmt: skip

    def solicited(self, address):
        """Actions of the switch's flow that answers for an IPv6 address; ovn-trace 25.03 aborts at a router's NA."""
        asked, found = ipaddress.ip_address(address), {}
        for row in self.southbound.rows("Logical_Flow", "match", "actions", "priority", "external_ids"):
            target = re.search(r"nd\.target == (?:{ )?([0-9a-f:./]+)", row["match"])
            answers = target and "nd_na" in row["actions"] and asked in ipaddress.ip_network(target[1])
            if answers and ["stage-name", "ls_in_arp_rsp"] in row["external_ids"][1]:
                found.setdefault(row["priority"], set()).add(row["actions"])
        return found[max(found)] if found else set()

    def end_of(self, name, number):
        """MAC and address of a workload on the Layer2 network."""
        interface = self.interface(f"red/{name}", "red_net")
        return interface["mac"], interface["addresses"][0 if number == 4 else 1].partition("/")[0]


class Cluster:
    """Both zones and the state that they follow."""

    def __init__(self, tools, folder, mode):
        self.mode, self.hosts = mode, with_gateways(mode)
        self.sides = {number: Side(tools, folder / f"z{number}", f"node{number}") for number in (1, 3)}
        self.state, problems = decide(EARLY, settings=SETTINGS, hosts=self.hosts)
        assert not problems
        self.apply()

    def apply(self):
        plan = build_plan(self.state)
        return [side.bring(plan, side.node) for side in self.sides.values()]

    def admit(self, text):
        self.state, problems = decide(text, self.state, settings=SETTINGS, hosts=self.hosts)
        assert not problems, problems

    def change(self, node, version):
        self.state, _moves, blockers = drain(self.state, [node], version)
        assert not blockers
        self.state, blockers = change_version(self.state, [node], version)
        assert not blockers


@pytest.fixture(params=["shared", "local"])
def cluster(request, tools, folder):
    made = Cluster(tools, folder, request.param)
    yield made
    for side in made.sides.values():
        side.end()


@pytest.fixture
def mixed(cluster):
    cluster.change("node1", TRANSIT_ROUTER)
    cluster.admit(LATE)
    cluster.apply()
    return cluster


def port(name):
    return f"red.net_red_{name}"


def northd_complaints(side):
    # Of a distributed gateway port and its chassisredirect twin only one can have the key; the port itself wins.
    return complaints(side.folder / "northd.log", "requests same tunnel key 1", "deprecated")


def test_all_of_a_mixed_cluster(mixed):
    """One test for all scenarios of one state: two zones take a while to start."""
    new, old = mixed.sides[1], mixed.sides[3]
    # What leaves through a port in one zone arrives at the port with its key in the other one.
    assert new.tunnel_keys()[f"stotr-{SWITCH}-upgrade"] == old.tunnel_keys()[f"stor-{SWITCH}_node1"]
    assert new.tunnel_keys()[f"stor-{SWITCH}_node3"] == old.tunnel_keys()[f"stor-{SWITCH}"]
    assert all(new.tunnel_keys()[port(name)] == old.tunnel_keys()[port(name)] for name in ("late", "c"))
    for number in FAMILIES:
        late, remote = new.end_of("late", number), new.end_of("c", number)
        _check_east_west(new, old, late, remote, number)
        _check_gateways(new, old, late, remote, number)
        _check_join_addresses(new, old, late, remote, number)
        _check_ingress(new, old, late, remote, number)
        _check_one_answer(new, old, late, remote, number)
    _check_router_advertisements(new, old)
    assert not northd_complaints(new)
    assert not northd_complaints(old)


def _check_east_west(new, old, late, remote, number):
    assert [out for out, _ in new.echo(SWITCH, port("late"), late, remote, number)] == [port("c")]
    assert [out for out, _ in old.echo(SWITCH, port("c"), remote, late, number)] == [port("late")]
    # Arriving there, as far as a trace can begin at a remote port.
    assert [out for out, _ in old.echo(SWITCH, port("late"), late, remote, number)] == [port("c")]
    assert [out for out, _ in new.echo(SWITCH, port("c"), remote, late, number)] == [port("late")]


def _check_gateways(new, old, late, remote, number):
    """Each workload gets an answer of the gateway on its own node."""
    for side, inport, end, mac in ((new, "late", late, TRANSIT_MAC), (old, "c", remote, GATEWAY_MAC[3])):
        answers = side.echo(SWITCH, port(inport), end, (mac, GATEWAY[number]), number)
        assert [out for out, _ in answers] == [port(inport)], answers


def _check_join_addresses(new, old, late, remote, number):
    """Replies to what came in over another node go to that node's join address, both ways and to each answer."""
    there = new.echo(SWITCH, port("late"), late, (TRANSIT_MAC, JOIN[3][number]), number)
    assert [out for out, _ in there] == [f"stor-{SWITCH}_node3"], there
    assert f"eth.dst = {GATEWAY_MAC[3]}" in there[0][1]
    assert f"eth.src = {GATEWAY_MAC[1]}" in there[0][1]
    arrived = old.echo(SWITCH, port("late"), late, (GATEWAY_MAC[3], JOIN[3][number]), number)
    assert [out for out, _ in arrived] == [port("late")], arrived

    there = old.echo(SWITCH, port("c"), remote, (GATEWAY_MAC[3], JOIN[1][number]), number)
    assert [out for out, _ in there] == [f"stor-{SWITCH}_node1"], there
    assert f"eth.dst = {GATEWAY_MAC[1]}" in there[0][1]
    arrived = new.echo(SWITCH, port("c"), remote, (GATEWAY_MAC[1], JOIN[1][number]), number)
    assert [out for out, _ in arrived] == [port("c")], arrived

    own = new.echo(SWITCH, port("late"), late, (TRANSIT_MAC, JOIN[1][number]), number)
    assert [out for out, _ in own] == [port("late")], own


def _check_ingress(new, old, late, remote, number):
    """What a gateway router sends with its join address reaches workloads on nodes of either kind."""
    source = "0a:58:64:58:00:05", JOIN[1][number]
    inward = "trtor-GR_red_net_node1"
    inside = "0a:58:64:58:00:04"
    for name, end in (("late", late), ("c", remote)):
        seen = new.echo(ROUTER, inward, source, (inside, end[1]), number)
        assert [out for out, _ in seen] == [port(name)], seen
    for name, end in (("late", late), ("c", remote)):
        seen = old.echo(SWITCH, f"stor-{SWITCH}", (GATEWAY_MAC[3], JOIN[3][number]), end, number)
        assert [out for out, _ in seen] == [port(name)], seen


def _check_one_answer(new, old, late, remote, number):
    masquerade = {4: "169.254.0.12", 6: "fd69::c"}[number]
    expected = (
        (new, "late", late, GATEWAY[number], TRANSIT_MAC),
        (new, "late", late, masquerade, TRANSIT_MAC),
        (new, "late", late, JOIN[3][number], GATEWAY_MAC[3]),
        # In IPv6 join addresses pass for on-link: the old gateway routers announce their subnet on all nodes.
        *([(new, "late", late, JOIN[1][6], TRANSIT_MAC)] if number == 6 else []),
        (old, "c", remote, GATEWAY[number], GATEWAY_MAC[3]),
        (old, "c", remote, JOIN[1][number], GATEWAY_MAC[1]),
    )
    for side, inport, end, address, mac in expected:
        _check_answer(side, port(inport), end, address, mac)


def _check_answer(side, inport, end, address, mac):
    if ":" in address:
        answers = side.solicited(address)
        assert len({answer.partition("eth.src = ")[2][:17] for answer in answers}) == 1, (address, answers)
        assert f"eth.src = {mac}" in next(iter(answers)), (address, answers)
        return
    answers = side.who_has(inport, end, address)
    assert [out for out, _ in answers] == [inport], (address, answers)
    assert mac in answers[0][1], (address, answers)


def _check_router_advertisements(new, old):
    """One port of the switch announces a gateway: which one, its link-local address, and what workloads have on-link.

    Of the masquerade subnet that is the transit router's own address only: a workload that reaches itself through a
    Service answers to fd69::5, which nothing on the link has, by way of its gateway.
    """
    subnet, masquerade, join = "2010:100:200::/60", "fd69::c/128", "fd99::/64"
    for side, announcing, mac, prefixes in (
        (new, f"trtos-{SWITCH}", TRANSIT_MAC, {subnet, masquerade}),
        (old, f"rtos-{SWITCH}", GATEWAY_MAC[3], {subnet, join}),
    ):
        options = {row["logical_port"]: dict(row["options"][1]) for row in
                   side.southbound.rows("Port_Binding", "logical_port", "options")}  # fmt: skip
        found = {
            name: reported["ipv6_ra_src_addr"]
            for name, reported in options.items()
            if "ipv6_ra_send_periodic" in reported
        }
        assert found == {announcing: link_local_address(mac)}
        assert set(options[announcing]["ipv6_ra_prefixes"].split()) == prefixes
        flows = side.southbound.rows("Logical_Flow", "match", "actions")
        answers = [row for row in flows if "put_nd_ra_opts" in row["actions"]]
        assert {row["match"].partition(" &&")[0] for row in answers} == {f'inport == "{announcing}"'}
        assert {frozenset(re.findall(r"prefix = ([^,)]+)", row["actions"])) for row in answers} == {frozenset(prefixes)}


def test_every_stage_and_back_again(cluster):
    """Each stage is written once; the way back ends where it began, and the clean-up leaves nothing old."""

    def objects():
        return [
            sorted(name for name in side.tunnel_keys() if not name.endswith(("red_c", "red_late")))
            for side in cluster.sides.values()
        ]

    cluster.admit(LATE)
    cluster.apply()
    began = objects()
    stages = [("node1", TRANSIT_ROUTER), ("node2", TRANSIT_ROUTER), ("node3", TRANSIT_ROUTER)]
    back = [("node3", GATEWAY_ROUTERS), ("node1", GATEWAY_ROUTERS), ("node2", GATEWAY_ROUTERS)]
    for node, version in stages + back:
        cluster.change(node, version)
        cluster.apply()
        assert not any(outcome.changed for outcome in cluster.apply())
    assert objects() == began
    for node, version in stages:
        cluster.change(node, version)
        cluster.apply()
    for number, side in cluster.sides.items():
        _check_remembered_neighbours(side, number)
    cluster.state, blockers = clean_up(cluster.state)
    assert not blockers
    cluster.apply()
    for number, side in cluster.sides.items():
        assert not [name for name in side.tunnel_keys() if "upgrade" in name or name.startswith(f"stor-{SWITCH}")]
        # All join addresses are reached over the transit router.
        for family in FAMILIES:
            end = side.end_of("c", family)
            for other in (1, 2, 3):
                seen = side.echo(SWITCH, port("c"), end, (TRANSIT_MAC, JOIN[other][family]), family)
                there = port("c") if other == number else f"trtor-GR_red_net_node{other}"
                assert {out for out, _ in seen} == {there}, seen
        # Running workloads keep the on-link prefix of these addresses without a lifetime.
        for other in (1, 2, 3):
            _check_answer(side, port("c"), side.end_of("c", 6), JOIN[other][6], TRANSIT_MAC)
        assert not northd_complaints(side)


def _check_remembered_neighbours(side, number):
    """A packet to an old gateway router's MAC still goes to its node; neighbour discovery finds the transit router."""
    end = side.end_of("c", 6)
    for other in {1, 2, 3} - {number}:
        seen = side.echo(SWITCH, port("c"), end, (GATEWAY_MAC[other], JOIN[other][6]), 6)
        assert [out for out, _ in seen] == [f"stor-{SWITCH}_node{other}"], seen
        _check_answer(side, port("c"), end, JOIN[other][6], TRANSIT_MAC)


def test_legacy_topology_alone(cluster):
    """Workloads on two nodes, before any node has a transit router."""
    cluster.admit(LATE)
    cluster.apply()
    one, three = cluster.sides[1], cluster.sides[3]
    for number in FAMILIES:
        ends = {"late": one.end_of("late", number), "c": one.end_of("c", number)}
        for side, own, other, here, there in ((one, "late", "c", 1, 3), (three, "c", "late", 3, 1)):
            mac, join = GATEWAY_MAC[here], JOIN[there][number]
            assert [out for out, _ in side.echo(SWITCH, port(own), ends[own], ends[other], number)] == [port(other)]
            answers = side.echo(SWITCH, port(own), ends[own], (mac, GATEWAY[number]), number)
            assert [out for out, _ in answers] == [port(own)]
            seen = side.echo(SWITCH, port(own), ends[own], (mac, join), number)
            assert [out for out, _ in seen] == [f"stor-{SWITCH}_node{there}"], seen
            for address, owner in ((GATEWAY[number], mac), (join, GATEWAY_MAC[there])):
                _check_answer(side, port(own), ends[own], address, owner)
            # What leaves gets the network's masquerade address, what goes to the management port another one.
            outside = side.echo(SWITCH, port(own), ends[own], (mac, {4: "8.8.8.8", 6: "2620:fe::9"}[number]), number)
            place, source = {
                "shared": (f"breth1_red_net_node{here}", OUTWARD), "local": (f"k8s-red_net_node{here}", TO_HOST),
            }[cluster.mode]  # fmt: skip
            assert {out for out, _ in outside} == {place}, outside
            assert re.search(rf"src={source[number]}\b", outside[-1][1]), outside
            # Processes of the node use Services by the provider bridge in both modes.
            answered = side.echo(SWITCH, port(own), ends[own], (mac, PROCESSES[number]), number)
            assert {out for out, _ in answered} == {f"breth1_red_net_node{here}"}, answered
    assert not northd_complaints(one)
    assert not northd_complaints(three)
