# SPDX-License-Identifier: Apache-2.0
"""The fast datapath of a host: one bridge, the networks that it carries, and the flows that it has learned."""

from __future__ import annotations

from ..common.naming import MESH_TUNNELS
from ..mesh import heartbeat
from ..mesh.flows import Expiry
from ..mesh.forwarding import Bridge, Key, Tunnel
from ..mesh.peers import vni
from . import flows
from .switch import ofproto, parser

# Seconds. A bridge that takes longer to hand a frame back handles no others either.
_LONGEST_WAIT = 2
# Learned flows of a network for one port, or one tunnel. Frames of other addresses make none: the daemon forwards them.
MOST_FLOWS = 16384


class Datapath:
    """Frames of the bridge in, messages for it out.

    `gossip` is this host's, `address` its address of the underlay, `send` takes messages for the bridge,
    `heartbeat_received` takes (address of the sender, VNI, frame). `send_fallback` takes (tunnel, network, frame,
    whether the sender can be notified that its packet is too big) for the fallback overlay; it returns that notice.
    """

    def __init__(self, gossip, address, send, heartbeat_received, send_fallback, now):
        self._gossip, self._address = gossip, address
        self._send, self._heartbeat_received, self._send_fallback = send, heartbeat_received, send_fallback
        self._numbers, self._networks_of = {}, {}
        self._bridges, self._expiry, self._generations = {}, {}, {}
        self._peers, self._neighbours, self._fallback = (), {}, frozenset()
        # {network: {port or tunnel: {key: ends of the tunnels in its flow}}}
        self._learned = {}
        self._base = None
        # Of the parts of an answer that have arrived, {network: {key: packets}}: what is deleted meanwhile is no part.
        self._counters = {}
        # The ports of the parts of the answer that have arrived.
        self._parts = {}
        self.dropped = {}
        self.misses = 0
        # When a frame of a workload has last been seen, and {neighbour's address: when one has last been sent there}.
        self.used, self._used = now, {}
        # The numbers of neighbours in flows, and {number: packets that its flows had counted}; 0 is all together.
        self._indexes, self._passed = {}, {}
        # What waits for the bridge, {number of the frame that it hands back: (what to do, since when)}.
        self._waiting, self._handed = {}, 0

    def set_networks(self, networks, gateways):
        """The networks of the mesh, {id: {name of a local port: MAC address of its workload}}; `gateways` by id."""
        for network in self._bridges.keys() - networks.keys():
            del self._bridges[network], self._expiry[network], self._generations[network]
            self._counters.pop(network, None)
            self._forget(network)
        for network, ports in networks.items():
            if network not in self._bridges:
                self._bridges[network] = Bridge(self._gossip, self._address)
                self._bridges[network].set_remotes(self._neighbours, self._fallback)
                self._expiry[network], self._generations[network] = Expiry(), None
            self._bridges[network].set_ports(ports)
            self._bridges[network].set_gateway(gateways.get(network))
        self._networks_of = {port: network for network, ports in networks.items() for port in ports}
        self._networks_of |= {gateway.port: network for network, gateway in gateways.items() if gateway.port}
        self.refresh()

    def set_peers(self, addresses):
        """The addresses of the other hosts: frames through tunnels of others are not looked at."""
        self._peers = tuple(sorted(addresses))
        self.refresh()

    def set_neighbours(self, neighbours, fallback=frozenset()):
        """The neighbours that an overlay works to, {name: address}, and those of them over the fallback."""
        self._neighbours, self._fallback = dict(neighbours), fallback
        for bridge in self._bridges.values():
            bridge.set_remotes(self._neighbours, self._fallback)
        self.refresh()

    def flows_of(self, address):
        """How many learned flows receive from a neighbour or send to it."""
        return sum(
            address in addresses
            for sources in self._learned.values() for keys in sources.values() for addresses in keys.values()
        )  # fmt: skip

    @property
    def is_ready(self):
        """True when the bridge has the tunnel port."""
        return MESH_TUNNELS in self._numbers

    def restarted(self):
        """A new connection to the bridge: whatever it has is not known."""
        self._numbers, self._base, self._parts = {}, None, {}
        self._counters.clear()
        self._send(flows.cleared())

    def gone(self):
        """There is no connection to the bridge, so nothing waits for it."""
        self._numbers = {}
        self._go_on(list(self._waiting))

    def received(self, message, now):
        """Handle a message of the bridge."""
        if isinstance(message, parser.OFPPacketIn):
            self._frame(message.match, bytes(message.data), now)
        elif isinstance(message, parser.OFPPortDescStatsReply):
            self._described(message)
        elif isinstance(message, parser.OFPPortStatus):
            name, number = _name(message.desc), message.desc.port_no
            others = {other: one for other, one in self._numbers.items() if other != name and one != number}
            gone = message.reason == ofproto.OFPPR_DELETE
            self._set_ports(others if gone else {**others, name: number})
        elif isinstance(message, parser.OFPFlowStatsReply):
            self._counted(message, now)
        elif isinstance(message, parser.OFPAggregateStatsReply):
            self._summed(flows.neighbour_of(message), message.body.packet_count, now)
        elif isinstance(message, parser.OFPErrorMsg):
            self.count_drop(f"the bridge refused a message: error {message.type}, {message.code}")

    def refresh(self):
        """Delete the flows that a change has made wrong; call it after every change of the mesh."""
        base = self._wanted_base()
        if base != self._base:
            self._base = base
            self._learned.clear()
            self._counters.clear()
            self._send(flows.cleared())
            if base is not None:
                self._send(*flows.base_flows(*base))
            self._generations = {network: bridge.generation for network, bridge in self._bridges.items()}
            return
        for network, bridge in self._bridges.items():
            if bridge.generation != self._generations[network]:
                self._generations[network] = bridge.generation
                self._forget(network)

    def heartbeat(self, tunnel, frame):
        """Send a heartbeat through a tunnel, as any frame of a workload would go."""
        if self.is_ready:
            self._send(flows.sent_through(tunnel, self._numbers[MESH_TUNNELS], frame))

    def after_frames(self, then, now):
        """Call `then` when the bridge has handled the frames of before: those to be sent, and those that have arrived.

        A frame that the bridge hands back goes through its datapath and through the threads of ovs-vswitchd that handle
        misses, as heartbeats do. So while those are slow, what is held against them waits, too. It is not waited for
        without a bridge, nor for longer than `_LONGEST_WAIT`.
        """
        if not self.is_ready:
            then()
            return
        self._handed += 1
        self._waiting[self._handed] = then, now
        self._send(flows.handed_back(self._handed))

    def give_up(self, now):
        """Wait no longer for a bridge that does not hand frames back."""
        self._go_on([number for number, (_then, since) in self._waiting.items() if now - since >= _LONGEST_WAIT])

    def _go_on(self, numbers):
        for number in numbers:
            self._waiting.pop(number)[0]()

    def ask_counters(self):
        """Begin a sweep (docs/fastdp.md, "Flow Invalidation"): flows without packets since the last one are deleted."""
        self._send(*map(flows.asked_counters, self._bridges))

    def ask_use(self):
        """Ask how many packets the learned flows have forwarded, for `used` and `used_to`."""
        self._send(flows.asked_total())

    def used_to(self, address):
        """When a frame of a workload has last been sent to this neighbour alone, 0 for never."""
        return self._used.get(address, 0)

    def expire(self, now):
        """Forget MAC addresses that were not seen for long."""
        for bridge in self._bridges.values():
            bridge.expire(now)

    def where(self, network, mac):
        """Where a MAC address is, as `Bridge.where`; None for an unknown network too."""
        bridge = self._bridges.get(network)
        return bridge.where(mac) if bridge else None

    def _wanted_base(self):
        if not self.is_ready or not self._bridges:
            return None
        local = tuple(sorted(self._numbers[port] for port in self._networks_of if port in self._numbers))
        return self._numbers[MESH_TUNNELS], local, self._peers

    def _described(self, message):
        """Part of the answer about ports, of which a message has room for 1023; the bridge sends parts in a row."""
        self._parts |= {_name(port): port.port_no for port in message.body}
        if not message.flags & ofproto.OFPMPF_REPLY_MORE:
            numbers, self._parts = self._parts, {}
            self._set_ports(numbers)

    def _set_ports(self, numbers):
        if numbers != self._numbers:
            self._numbers = numbers
            self.refresh()

    def _names(self):
        return {self._numbers[port]: port for port in self._networks_of if port in self._numbers}

    def _frame(self, match, frame, now):
        if len(frame) < heartbeat.ETHERNET_HEADER:
            return
        number = flows.number_handed_back(match, frame)
        if number is not None:
            self._go_on([one for one in self._waiting if one <= number])
            return
        key = flows.key_of(match, (frame[6:12].hex(":"), frame[:6].hex(":")), self._names())
        if key is None or not self.is_ready:
            return
        if key.tunnel and heartbeat.is_heartbeat(frame):
            self._heartbeat_received(key.tunnel.source, key.tunnel.vni, frame)
            return
        self.misses += 1
        self.used = now
        network = flows.network_of(frame) if key.tunnel else self._networks_of[key.port]
        decision = self._decided(network, key, now)
        if decision is None:
            return
        self._mark(decision, now)
        if decision.ports or decision.tunnels:
            self._send(flows.sent(network, key, self._numbers, self._numbers[MESH_TUNNELS], decision, frame))
        if decision.fallbacks:
            self._over_fallback(network, key, decision, flows.untagged(frame) if key.tunnel else frame)

    def from_fallback(self, tunnel, network, frame, now):
        """Handle a frame of a workload that arrived over the fallback; it makes no flow."""
        self.used = now
        bridge = self._bridges.get(network)
        if bridge is None or not self.is_ready or len(frame) < heartbeat.ETHERNET_HEADER:
            return
        key = Key(None, tunnel, frame[6:12].hex(":"), frame[:6].hex(":"))
        decision = bridge.decide(key, now)
        if decision.reason:
            self.count_drop(decision.reason)
        self._mark(decision, now)
        self.refresh()
        if decision.ports or decision.tunnels:
            self._send(flows.injected(network, self._numbers, self._numbers[MESH_TUNNELS], decision, frame))
        self._over_fallback(network, key, decision, frame)

    def _over_fallback(self, network, key, decision, frame):
        for tunnel in decision.fallbacks:
            answer = self._send_fallback(tunnel, network, frame, key.port is not None)
            if answer is not None:
                self._send(flows.delivered(self._numbers[key.port], answer))

    def _forget(self, network):
        self._learned.pop(network, None)
        self._send(flows.forgotten(network))

    def _decided(self, network, key, now):
        """Decide, and make the flow that repeats it; None for a network that is not here."""
        bridge = self._bridges.get(network)
        if bridge is None:
            return None
        decision = bridge.decide(key, now)
        if decision.reason:
            self.count_drop(decision.reason)
        # The frame may have shown that an address moved: older flows are deleted before this one is made.
        self.refresh()
        if decision.flow and decision.generation == bridge.generation and self._has_room(network, key):
            ends = {tunnel.destination for tunnel in decision.tunnels} | ({key.tunnel.source} if key.tunnel else set())
            self._learned.setdefault(network, {}).setdefault(key.port or key.tunnel, {})[key] = ends
            vxlan, neighbour = self._numbers[MESH_TUNNELS], self._index(_only_end(decision))
            self._send(flows.learned(network, key, self._numbers, vxlan, decision, neighbour))
        return decision

    def _has_room(self, network, key):
        keys = self._learned.get(network, {}).get(key.port or key.tunnel, {})
        return key in keys or len(keys) < MOST_FLOWS

    def _index(self, address):
        """The number of a neighbour in flows; 0 for none, and for those that there is no number left for."""
        if address is None or len(self._indexes) == flows.MOST_NEIGHBOURS:
            return self._indexes.get(address, 0)
        return self._indexes.setdefault(address, len(self._indexes) + 1)

    def _mark(self, decision, now):
        """Note which neighbour a frame goes to; one that is flooded does not count."""
        end = _only_end(decision)
        if end is not None:
            self._used[end] = now

    def _summed(self, neighbour, packets, now):
        """Part of the answers to `ask_use`. Flows that were deleted are not in the sum any more: that is use, too."""
        if packets == self._passed.get(neighbour, 0):
            return
        self._passed[neighbour] = packets
        if neighbour:
            self._used |= {address: now for address, index in self._indexes.items() if index == neighbour}
            return
        self.used = now
        present = set(self._neighbours.values())
        self._send(*(flows.asked_total(index) for address, index in self._indexes.items() if address in present))

    def count_drop(self, reason):
        """Count what is dropped by its reason."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def _counted(self, message, now):
        """Part of the answer to `ask_counters`; the last part ends the sweep of its network."""
        for one in message.body:
            network = one.cookie & 0xFFFF
            key = flows.key_of(one.match, (one.match.get("eth_src"), one.match.get("eth_dst")), self._names())
            if key and network in self._bridges:
                self._counters.setdefault(network, {})[key] = one.packet_count
        if message.flags & ofproto.OFPMPF_REPLY_MORE or not self.is_ready:
            return
        counters, self._counters = self._counters, {}
        for network, packets in counters.items():
            unused, used = self._expiry[network].sweep(packets)
            vxlan = self._numbers[MESH_TUNNELS]
            self._send(*(flows.removed(network, key, self._numbers, vxlan) for key in unused))
            for key in unused:
                self._learned.get(network, {}).get(key.port or key.tunnel, {}).pop(key, None)
            learned = self._learned.get(network, {})
            for key in used:
                # A flow that was deleted after the bridge had counted it says nothing of where its source is now.
                if key in learned.get(key.port or key.tunnel, {}):
                    self._decided(network, key, now)


def _only_end(decision):
    """The address of the neighbour that a frame goes to; None for none, and for several."""
    ends = {tunnel.destination for tunnel in (*decision.tunnels, *decision.fallbacks)}
    return ends.pop() if len(ends) == 1 else None


def tunnel_to(gossip, name, own, address):
    """The tunnel to a neighbour for a frame of the mesh itself; None while a short id is unknown."""
    ids = gossip.short_id(gossip.name), gossip.short_id(name)
    if None in ids:
        return None
    return Tunnel(vni(*ids), own, address)


def _name(port):
    return port.name.decode(errors="replace") if isinstance(port.name, bytes) else port.name
