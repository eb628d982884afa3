# SPDX-License-Identifier: Apache-2.0
"""EgressFirewall and EgressQoS: which packets leave, and with which DSCP, through OVN and the provider bridge."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.live.conftest import wait_for
from tests.live.gateway.conftest import UPLINK, Host
from tests.live.gateway.external_host import EXTERNAL, MANIFESTS, NAMES, request_of
from tests.live.gateway.packets import UDP, Packet, Question, decode, read_capture
from tests.pipeline import workload

FAMILIES = (4, 6)
# On Layer2, Layer3 and the default network; the others have the same subnets and no firewall.
RESTRICTED = ("flat", "deep", "plain")
OPEN = tuple(name for name in NAMES if name not in RESTRICTED)
ALLOWED, DENIED = 7, 8
EXPEDITED, BULK = 46, 10

# Multicast (RFC 1112, RFC 2464) and broadcast.
TO_ALL = {
    4: {"01:00:5e:00:00:fb": "224.0.0.251", "ff:ff:ff:ff:ff:ff": "255.255.255.255"},
    6: {"33:33:00:00:00:fb": "ff02::fb"},
}


def document(kind: str, namespace: str, rules: list[dict]) -> str:
    metadata = {"name": "default", "namespace": namespace}
    found = {"apiVersion": "k8s.ovn.org/v1", "kind": kind, "metadata": metadata, "spec": {"egress": rules}}
    return f"---\n{json.dumps(found)}\n"


def to(kind: str, target: str, *ports: int) -> dict:
    rule = {"type": kind, "to": {"cidrSelector": target}}
    return {**rule, "ports": [{"protocol": "UDP", "port": port} for port in ports]} if ports else rule


FIREWALL = [to("Allow", f"{EXTERNAL[4]}/32", ALLOWED), to("Allow", f"{EXTERNAL[6]}/128", ALLOWED),
            to("Deny", "0.0.0.0/0"), to("Deny", "::/0")]  # fmt: skip


def sent_out(machine: Host, version: int) -> dict[tuple[str, int], Packet]:
    """By payload and port what has left to the external host."""
    found = [one for one in machine.sent(UPLINK) if isinstance(one, Packet) and one.target == EXTERNAL[version]]
    return {(one.payload.decode(), one.target_port): one for one in found}


def test_first_matching_rule_decides_about_what_leaves_and_replies_return(host):
    neighbours = "".join(workload(name, "b", "node1") for name in RESTRICTED)
    text = MANIFESTS + neighbours + "".join(document("EgressFirewall", name, FIREWALL) for name in RESTRICTED)
    machine, zone = host(text)
    for version in FAMILIES:
        for name in NAMES:
            asked = request_of(zone, name, UDP, version)
            for port in (DENIED, ALLOWED):
                machine.receive(f"if-{name}", replace(asked, target_port=port).encode())

        expected = {(name, ALLOWED) for name in NAMES} | {(name, DENIED) for name in OPEN}
        # What may not leave is sent before what may.
        machine.exchange(lambda version=version, expected=expected: expected <= set(sent_out(machine, version)),
                         "what may leave")  # fmt: skip
        assert set(sent_out(machine, version)) == expected
        for name in RESTRICTED:
            machine.receive(UPLINK, sent_out(machine, version)[name, ALLOWED].answer().encode())
            machine.exchange(
                lambda name=name, version=version: answered(machine, name, version), f"the reply to {name}"
            )


@pytest.mark.parametrize("version", FAMILIES)
def test_the_first_matching_rule_decides_in_local_gateway_mode(shared_host, version):
    """At the management ports: the host's kernel forwards from there."""
    text = MANIFESTS + "".join(document("EgressFirewall", name, FIREWALL) for name in RESTRICTED)
    machine, zone = shared_host(text, "local")
    networks = {name: "default" if name == "plain" else f"{name}_net" for name in NAMES}
    ways = {name: f"ovn-k8s-mp{zone.plan['networks'][network]['id']}" for name, network in networks.items()}
    for name in NAMES:
        asked = request_of(zone, name, UDP, version)
        for port in (DENIED, ALLOWED):
            machine.receive(f"if-{name}", replace(asked, target_port=port).encode())

    def left() -> dict[tuple[str, int], Packet]:
        found = [one for way in ways.values() for one in machine.sent(way) if isinstance(one, Packet)]
        return {(one.payload.decode(), one.target_port): one for one in found if one.target == EXTERNAL[version]}

    expected = {(name, ALLOWED) for name in NAMES} | {(name, DENIED) for name in OPEN}
    machine.exchange(lambda: expected <= set(left()), "what may leave")
    assert set(left()) == expected
    assert not sent_out(machine, version)
    for name in RESTRICTED:
        machine.receive(ways[name], left()[name, ALLOWED].answer().encode())
        machine.exchange(lambda name=name: answered(machine, name, version), f"the reply to {name}")


def answered(machine: Host, name: str, version: int) -> bool:
    return any(isinstance(one, Packet) and one.source == EXTERNAL[version] for one in machine.sent(f"if-{name}"))


def test_rules_are_not_about_the_network_itself(host):
    text = MANIFESTS + workload("flat", "b", "node1") + document("EgressFirewall", "flat", FIREWALL[2:])
    machine, zone = host(text)
    ends = [zone.interface(f"flat/{name}", "flat_net") for name in ("a", "b")]
    for version in FAMILIES:
        own, other = (next(one for one in end["addresses"] if (":" in one) == (version == 6)).partition("/")[0]
                      for end in ends)  # fmt: skip
        machine.send_until(
            lambda other=other: any(getattr(one, "address", "") == other for one in machine.sent("if-flat")),
            "if-flat", Question(ends[0]["mac"], own, other).encode(), "the answer for the neighbour",
        )  # fmt: skip
        inside = Packet(ends[0]["mac"], ends[1]["mac"], own, other, UDP, 5000, DENIED, payload=b"inside")
        machine.receive("if-flat", inside.encode())
        wait_for(lambda inside=inside: inside in machine.sent("if-flat-b"), "the packet to the neighbour")
        for mac, target in TO_ALL[version].items():
            to_all = replace(inside, target_mac=mac, target=target)
            machine.receive("if-flat", to_all.encode())
            wait_for(lambda seen=to_all: seen in machine.sent("if-flat-b"), f"the packet to {target}")


@pytest.mark.parametrize("mode", ["shared", "local"])
def test_dscp_is_seen_outside(host, mode):
    """In local gateway mode at the management ports: the host's kernel forwards from there."""
    rules = [{"dscp": EXPEDITED, "dstCIDR": f"{EXTERNAL[4]}/32"}, {"dscp": BULK}]
    machine, zone = host(MANIFESTS + document("EgressQoS", "plain", rules), mode)
    numbers = {"plain": 0, "flat": zone.plan["networks"]["flat_net"]["id"]}
    ways = {name: UPLINK if mode == "shared" else f"ovn-k8s-mp{number}" for name, number in numbers.items()}
    for version, expected in ((4, EXPEDITED), (6, BULK)):
        for name in ways:
            machine.receive(f"if-{name}", request_of(zone, name, UDP, version).encode())
        seen = lambda version=version: {  # noqa: E731
            name: dscp(machine, way, version).get(name) for name, way in ways.items()
        }
        machine.exchange(lambda seen=seen: None not in seen().values(), "what the workloads sent")
        assert seen() == {"plain": expected, "flat": 0}


def dscp(machine: Host, interface: str, version: int) -> dict[str, int]:
    """By payload the DSCP of what was sent to an external host (RFC 2474: six bits of the traffic class)."""
    found = {}
    for frame in read_capture(machine.folder / f"{interface}.pcap"):
        packet = decode(frame)
        if isinstance(packet, Packet) and packet.target == EXTERNAL[version]:
            traffic_class = frame[15] if version == 4 else (frame[14] & 15) << 4 | frame[15] >> 4
            found[packet.payload.decode()] = traffic_class >> 2
    return found
