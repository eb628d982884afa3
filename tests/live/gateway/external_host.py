# SPDX-License-Identifier: Apache-2.0
"""Workloads on networks with equal subnets, and what they exchange with an external host."""

from __future__ import annotations

from tests.live.gateway.conftest import UPLINK
from tests.live.gateway.packets import ICMP, ICMPV6, UDP, Packet
from tests.pipeline import layer2, namespace, workload

EXTERNAL = {4: "198.51.100.7", 6: "2001:db8:99::7"}
NODE = {4: "192.0.2.11", 6: "2001:db8::b"}


def layer3(name: str) -> str:
    return (
        "---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\n"
        f"metadata: {{name: net, namespace: {name}}}\nspec: {{topology: Layer3, layer3: {{role: Primary, "
        "subnets: [{cidr: 10.50.0.0/16, hostSubnet: 24}, {cidr: 'fd50::/60', hostSubnet: 64}]}}\n"
    )


NAMES = ("flat", "even", "deep", "also", "plain")
MANIFESTS = "".join(
    [
        *(namespace(name) + layer2(name, "net", "10.50.0.0/24", "fd50::/64") for name in ("flat", "even")),
        *(namespace(name) + layer3(name) for name in ("deep", "also")),
        namespace("plain", primary=False),
        *(workload(name, "a", "node1") for name in NAMES),
    ]
)


def request_of(zone, name: str, protocol: int, family: int) -> Packet:
    """A workload's packet to an external host, from a port that all use.

    Echoes have an identifier each: the userspace datapath translates ports, not identifiers (the kernel does both).
    """
    interface = zone.plan["workloads"][f"{name}/a"]["interfaces"][-1]
    address = next(item for item in interface["addresses"] if (":" in item) == (family == 6)).partition("/")[0]
    ends = ("rtos-node1",) if name == "plain" else (f"rtos-{name}_net_node1", f"trtos-{name}_net_ovn_layer2_switch")
    gateway = next(mac for port, mac in zone.router_macs.items() if port in ends)
    port = 5000 if protocol == UDP else 5000 + NAMES.index(name)
    found = Packet(interface["mac"], gateway, address, EXTERNAL[family], protocol, port, payload=name.encode())
    if protocol == UDP:
        return Packet(**{**vars(found), "target_port": 7})
    return Packet(**{**vars(found), "kind": 8 if family == 4 else 128})


def conversations(machine, zone, family: int, leaving=NAMES) -> list[dict[str, Packet]]:
    """Let all workloads send at once, by UDP and then by ICMP, and those of `leaving` get their replies.

    Return what left by the uplink, by workload, for each protocol.
    """
    found = []
    for protocol in (UDP, ICMP if family == 4 else ICMPV6):
        requests = {name: request_of(zone, name, protocol, family) for name in NAMES}
        assert requests["flat"].source == requests["even"].source
        for name, packet in requests.items():
            machine.receive(f"if-{name}", packet.encode())

        def external(protocol=protocol):
            sent = [packet for packet in machine.sent(UPLINK) if isinstance(packet, Packet)]
            return {packet.payload.decode(): packet for packet in sent if packet.protocol == protocol
                    and packet.target == EXTERNAL[family]}  # fmt: skip

        machine.exchange(lambda: len(external()) == len(leaving), "what the workloads sent")
        found.append(external())
        for packet in found[-1].values():
            machine.receive(UPLINK, packet.answer().encode())

        def back(name, protocol=protocol):
            return [packet for packet in machine.sent(f"if-{name}")
                    if isinstance(packet, Packet) and packet.protocol == protocol
                    and packet.source == EXTERNAL[family]]  # fmt: skip

        for name in leaving:
            machine.exchange(lambda name=name: back(name), f"the reply to {name}")
            [answer] = back(name)
            assert answer.payload == name.encode()
            source = requests[name].source, requests[name].source_port
            assert (answer.target, answer.target_port or answer.source_port) == source
    return found
