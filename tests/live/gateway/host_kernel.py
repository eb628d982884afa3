# SPDX-License-Identifier: Apache-2.0
"""What the kernel of a host does with packets to Services, for hosts of the tests, which have none.

The marks that its rules set do not reach a userspace datapath with a packet, and a machine that runs the tests may have
no VRFs. So this translates by the maps of the rendered firewall and forwards by the rendered rules and routes, and
hands packets to the provider bridge together with their mark, as the kernel's datapath does. That the kernel itself
accepts and follows these rules is shown in `tests/live/nftables` and `tests/live/gateway/test_rendered_host.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import ip_address, ip_network

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import nth_address, subnet_of
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.entrances import (
    held_load_balancer_addresses,
    node_port_addresses,
)
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.firewall import render_firewall
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import (
    render_host_network,
    render_management_ports,
)
from tests.live.gateway.conftest import BRIDGE, MAC, NEXT_HOP_MAC
from tests.live.gateway.external_host import NODE
from tests.live.gateway.packets import UDP, Packet, Question
from tests.live.gateway.test_services import gateway_mac, interface

_HOST_MASQUERADE = 2  # NodeNetwork.HOST_MASQUERADE


class HostKernel:
    """Translates and forwards what OVN hands to node1, for UDP; call `step` until what a test waits for is there.

    `gateways` has the MAC address of the router behind each management port. `has_marks` False: as the provider bridge
    of a userspace datapath sees what the kernel sends.
    """

    def __init__(self, machine, plan: dict, gateways: dict[str, str], *, has_marks: bool = True) -> None:
        self._machine, self._plan, self._gateways = machine, plan, gateways
        firewall = render_firewall(plan, "node1", with_prober=False)
        self._maps = {one.name: dict(element.split(" : ") for element in one.elements) for one in firewall.maps}
        host = render_host_network(plan, "node1")
        # Those with a goto change nothing but the time that it takes.
        self._rules = [rule for rule in host.rules if not rule.goto]
        tables = {link.name: link.vrf for link in host.links}
        # Table, destination, interface and next hop, the longest prefixes first.
        routes = [(one.vrf, one.to, one.device, one.via) for one in host.routes if one.kind == "unicast"]
        routes += [(tables.get(one.device, ""), one.address, one.device, "") for one in host.addresses]
        nics = plan["nodes"]["node1"].get("other_addresses", {})
        # VRFs have copies of the main table's routes.
        vrfs = ["", *(vrf.name for vrf in host.vrfs)]
        routes += [(vrf, subnet_of(one), nic, "") for vrf in vrfs for nic in nics for one in nics[nic]]
        found = [(table, ip_network(to, strict=False), device, via) for table, to, device, via in routes]
        self._routes = sorted(found, key=lambda one: -one[1].prefixlen)
        self._neighbours = {one.address: one.mac for one in host.neighbours}
        ports = (row for row in render_management_ports(plan, "node1") if row.table == "Interface")
        self._macs = {BRIDGE: MAC} | {row.key: row.columns["mac"] for row in ports}
        self._has_marks = has_marks
        self._is_local = plan["nodes"]["node1"]["gateway"]["mode"] == "local"
        self._seen = dict.fromkeys([BRIDGE, *gateways], 0)
        self._own = {*node_port_addresses(plan, "node1"), *held_load_balancer_addresses(plan, "node1")}
        # What the reply to a connection looks like to the sender, by the reply as it arrives.
        self._replies: dict[tuple, tuple] = {}
        # Packets that were for the host itself, and what it sent by each other NIC.
        self.delivered: list[Packet] = []
        self.sent: dict[str, list[Packet]] = {nic: [] for nic in nics}

    def step(self) -> bool:
        """Handle all packets that came since; always true."""
        for device in self._seen:
            sent = self._machine.sent(device)
            new, self._seen[device] = sent[self._seen[device] :], len(sent)
            for one in new:
                if isinstance(one, Packet) and one.protocol == UDP:
                    self._packet(device, one)
                elif isinstance(one, Question) and device == BRIDGE:
                    self._question(one)
        return True

    def reply(self, packet: Packet) -> None:
        """Let a process of the host answer a packet that was delivered to it."""
        answer = packet.answer()
        ends = self._replies.get(_ends(answer))
        self._forward(_with_ends(answer, ends) if ends else answer, 0)

    def receive(self, nic: str, packet: Packet) -> None:
        """Let a packet come in by another NIC."""
        self._packet(nic, packet)

    def send(self, target: str, port: int, payload: bytes, source_port: int = 4000, source: str = "") -> None:
        """Let a process of the host send to a Service: `services-output` and `service-mark-output`."""
        version = 6 if ":" in target else 4
        key = f"{target} . udp . {port}"
        mark = int(self._maps[f"service-marks-v{version}"][key], 16)
        address, translated = self._maps[f"service-targets-v{version}"][key].split(" . ")
        packet = Packet("", "", source or NODE[version], target, UDP, source_port, port, payload=payload)
        self._translated(packet, replace(packet, target=address, target_port=int(translated)), mark)

    def _question(self, question: Question) -> None:
        if question.asked in held_load_balancer_addresses(self._plan, "node1"):
            self._machine.receive(BRIDGE, question.answer(MAC))

    def _packet(self, device: str, packet: Packet) -> None:
        if device == BRIDGE and packet.target_mac != MAC:
            return
        # A martian source: no other interface receives what the host itself has sent (Linux, fib_validate_source).
        if packet.source == NODE[4]:
            return
        reply = self._replies.get(_ends(packet))
        if reply:
            self._forward(_with_ends(packet, reply), 0)
            return
        version = 6 if ":" in packet.target else 4
        key = f"{packet.target} . udp . {packet.target_port}"
        mark = int(self._maps.get(f"service-marks-v{version}", {}).get(key, "0"), 16)
        names = [f"received-service-targets-v{version}"]
        if device == BRIDGE:
            names.insert(0, f"local-service-targets-v{version}")
        elif device in self.sent:
            names.insert(0, f"nic-service-targets-v{version}")
        wanted = next((self._maps[name][key] for name in names if key in self._maps.get(name, {})), "")
        translated = packet
        if wanted:
            address, port = wanted.split(" . ")
            translated = replace(packet, target=address, target_port=int(port))
        self._translated(packet, translated, mark)

    def _translated(self, packet: Packet, translated: Packet, mark: int) -> None:
        """Deliver or forward a packet after its destination was translated, and remember what its reply looks like."""
        version = 6 if ":" in packet.target else 4
        is_own = translated.target in self._own
        if not is_own:
            outward, _mac = self._route(translated.target, mark)
            translated = replace(translated, source=self._source(translated, outward, version))
        there, back = _ends(translated), _ends(packet)
        self._replies[there[2:] + there[:2]] = back[2:] + back[:2]
        if is_own:
            self.delivered.append(translated)
        else:
            self._forward(translated, mark)

    def _source(self, packet: Packet, device: str, version: int) -> str:
        """The chain `ovn-kube-local-gw-masq`: the address of the bridge that is near the next hop."""
        settings = self._plan["settings"]
        subnets = [*self._plan["networks"]["default"]["subnets"], *settings["masquerade_subnets"]]
        own = [ip_network(one) for one in subnets]
        source, services = ip_address(packet.source), [ip_network(one) for one in settings["service_subnets"]]
        if not self._is_local or device != BRIDGE or not any(source in one for one in own):
            return packet.source
        if not any(ip_address(packet.target) in one for one in services):
            return NODE[version]
        masquerade = next(one for one in settings["masquerade_subnets"] if ip_network(one).version == version)
        return packet.source if source in ip_network(masquerade) else nth_address(masquerade, _HOST_MASQUERADE)

    def _forward(self, packet: Packet, mark: int) -> None:
        if packet.target in self._own:
            self.delivered.append(packet)
            return
        device, mac = self._route(packet.target, mark)
        if device in self.sent:
            self.sent[device].append(packet)
            return
        frame = replace(packet, source_mac=self._macs[device], target_mac=mac).encode()
        if device == BRIDGE:
            self._machine.send_as_host(frame, mark if self._has_marks else 0)
        else:
            self._machine.receive(device, frame)

    def _route(self, target: str, mark: int) -> tuple[str, str]:
        """The interface towards an address, and the MAC address of the next hop."""
        address = ip_address(target)
        rules = [one for one in self._rules if one.fwmark == mark and (not one.to or address in ip_network(one.to))]
        for table in [*(one.vrf for one in rules), ""]:
            for name, subnet, device, via in self._routes:
                if name == table and address in subnet:
                    if device in self.sent:
                        return device, ""
                    beyond = self._neighbours.get(via or target, NEXT_HOP_MAC)
                    return device, beyond if device == BRIDGE else self._gateways[device]
        return BRIDGE, NEXT_HOP_MAC


def kernel_of(machine, zone, names: Iterable[str], *, has_marks: bool = True) -> HostKernel:
    """The kernel of node1, which leads to the networks of some namespaces, each by its management port."""
    gateways = {
        f"ovn-k8s-mp{zone.plan['networks'][interface(zone, name, 'a')['network']]['id']}": gateway_mac(zone, name)
        for name in names
    }
    return HostKernel(machine, zone.plan, gateways, has_marks=has_marks)


def _ends(packet: Packet) -> tuple:
    return packet.source, packet.source_port, packet.target, packet.target_port


def _with_ends(packet: Packet, ends: tuple) -> Packet:
    source, source_port, target, target_port = ends
    return replace(packet, source=source, source_port=source_port, target=target, target_port=target_port)
