# SPDX-License-Identifier: Apache-2.0
"""What happens to a frame that no flow matches (weave, docs/fastdp.md, "Misses and Flow Creation").

A decision depends on the keys of a flow only: port, tunnel, MAC addresses. So a flow with the same keys and actions
may do the same from then on, unless the decision says that it may not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .peers import short_ids_of, vni

MAC_SECONDS = 600
# The MAC addresses of one port, as a switch's table has a size (port security). Frames of further ones are dropped: to
# flood them would fill the tables of the other hosts.
MOST_MACS = 1024
_SPANNING_TREE = "01:80:c2:00:00:00"


@dataclass(frozen=True, slots=True)
class Tunnel:
    """Outer header of a frame: VXLAN network identifier and addresses of the underlay."""

    vni: int
    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class Key:
    """What a flow matches; `tunnel` is None for a frame of a local port, `port` None for one of a tunnel."""

    port: str | None
    tunnel: Tunnel | None
    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class Gateway:
    """The router of a network, which has this MAC address on every host; `port` is that of this host, "" for none."""

    mac: str
    port: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """Actions for a frame: local ports, then tunnels. `flow` is whether a flow may repeat them.

    `fallbacks` are the tunnels whose next hop is reached over the fallback overlay: the daemon itself sends there, so
    no flow can.
    `generation` is that of the bridge when the decision was made: a flow must not be made when it has risen since.
    `reason` says why a frame is dropped. It has no address that a workload chooses: reasons are counted each.
    """

    ports: tuple[str, ...]
    tunnels: tuple[Tunnel, ...]
    flow: bool
    generation: int
    reason: str = ""
    fallbacks: tuple[Tunnel, ...] = ()


class Bridge:
    """The forwarding database of one peer, and its decisions.

    `gossip` is this peer's Gossip, `address` its address on the underlay. When `generation` rises the caller deletes
    all flows, and makes none of a decision of an earlier one: the mesh changed, or the ports, or an address moved.
    """

    def __init__(self, gossip, address):
        self._gossip = gossip
        self._address = address
        self._remotes = {}
        self._fallback = frozenset()
        self._ports = {}
        self._gateway = None
        self._changes = 0
        self._local = {}
        # How many addresses of `_local` are at each port.
        self._macs = Counter()
        self._remote = {}

    @property
    def generation(self):
        """Rises with every change after which flows are wrong."""
        return self._gossip.generation + self._changes

    def set_ports(self, ports):
        """The local ports, {name: MAC address of its workload}."""
        if ports != self._ports:
            self._ports = dict(ports)
            self._changes += 1

    def set_gateway(self, gateway):
        """The Gateway of the network, None for a network without."""
        if gateway != self._gateway:
            self._gateway = gateway
            self._changes += 1

    def set_remotes(self, remotes, fallback=frozenset()):
        """The neighbours that an overlay works to, {name: address on the underlay}, and those over the fallback."""
        if (remotes, fallback) != (self._remotes, self._fallback):
            self._remotes, self._fallback = dict(remotes), frozenset(fallback)
            self._changes += 1

    def decide(self, key, now):
        """Learn the source of a frame, and return its decision."""
        if _group(key.source):
            return self._drop("source is a group address")
        gateway = self._gateway
        if gateway is not None:
            if gateway.port and key.port == gateway.port:
                return self._from_gateway(key)
            if key.source == gateway.mac or (key.tunnel is not None and key.destination == gateway.mac):
                # All hosts have this address, so it is in no frame between them.
                return self._drop(f"{gateway.mac} is the address of the gateway", flow=True)
        if key.tunnel is None:
            return self._from_port(key, now)
        return self._from_tunnel(key, now)

    def expire(self, now):
        """Forget MAC addresses that were not seen for ten minutes."""
        for table, forget in ((self._local, self._forget_local), (self._remote, self._remote.pop)):
            for mac in [mac for mac, (_where, seen) in table.items() if now - seen >= MAC_SECONDS]:
                forget(mac)

    def where(self, mac):
        """The local port or the peer that a MAC address is at, as (kind, name); None if unknown."""
        if mac in self._local:
            return "port", self._local[mac][0]
        return ("peer", self._remote[mac][0]) if mac in self._remote else None

    def _from_gateway(self, key):
        """To workloads of this host: each host is the router of its own."""
        if key.source != self._gateway.mac:
            return self._drop("a frame of the gateway has another address as its source", flow=True)
        at = self.where(key.destination)
        if at is not None and at[0] == "peer":
            return self._drop(f"destination is at peer {at[1]}, which has a gateway of its own", flow=True)
        if at is not None and at[1] in self._ports:
            return self._decision((at[1],), ())
        return self._decision(tuple(sorted(self._ports)), (), _group(key.destination))

    def _from_port(self, key, now):
        at = self.where(key.source)
        if at is not None and at[0] == "peer":
            # A frame that came back over another link between the hosts looks like one of a workload that moved here.
            # Only that one is the port's own address.
            if self._ports.get(key.port) != key.source:
                return self._drop(f"source is at peer {at[1]}")
            del self._remote[key.source]
        elif at != ("port", key.port) and self._is_full(key):
            return self._drop(f"port {key.port} sends from more than {MOST_MACS} addresses")
        if at != ("port", key.port):
            self._forget_local(key.source)
            self._macs[key.port] += 1
        self._learn(self._local, key.source, key.port, now, moved=at is not None and at != ("port", key.port))
        if key.destination == _SPANNING_TREE:
            return self._drop("spanning tree protocol", flow=True)
        if self._gateway is not None and key.destination == self._gateway.mac:
            if not self._gateway.port:
                return self._drop("this host is no gateway", flow=True)
            return self._decision((self._gateway.port,), ())
        at = self.where(key.destination)
        if at is None or (at[0] == "port" and at[1] not in self._ports):
            return self._flood(key, self._gossip.name, known=_group(key.destination))
        if at[0] == "port":
            if at[1] == key.port:
                return self._drop("destination is at the port that the frame came from")
            return self._decision((at[1],), ())
        return self._unicast(key, self._gossip.short_id(self._gossip.name), at[1])

    def _from_tunnel(self, key, now):
        if key.tunnel.source not in self._remotes.values():
            return self._drop(f"{key.tunnel.source} is no neighbour")
        source_id, destination_id = short_ids_of(key.tunnel.vni)
        source, destination = self._gossip.owner(source_id), self._gossip.owner(destination_id)
        if source is None or destination is None:
            return self._drop("short id of no peer")
        if source == self._gossip.name:
            return self._drop("a frame of this peer came back")
        if destination != self._gossip.name:
            return self._unicast(key, source_id, destination)
        at = self.where(key.source)
        self._forget_local(key.source)
        self._learn(self._remote, key.source, source, now, moved=at is not None and at != ("peer", source))
        at = self.where(key.destination)
        if at is not None and at[0] == "port" and at[1] in self._ports:
            return self._decision((at[1],), ())
        return self._flood(key, source, known=_group(key.destination))

    def _is_full(self, key):
        return self._macs[key.port] >= MOST_MACS and self._ports.get(key.port) != key.source

    def _forget_local(self, mac):
        if mac in self._local:
            port, _seen = self._local.pop(mac)
            self._macs[port] -= 1
            if not self._macs[port]:
                del self._macs[port]

    def _learn(self, table, mac, where, now, moved):
        table[mac] = (where, now)
        if moved:
            self._changes += 1

    def _unicast(self, key, source_id, destination):
        """To the peer `destination`, over the next hop; relays keep both short ids."""
        hop = self._gossip.unicast.get(destination)
        if hop is None:
            return self._drop(f"no route to peer {destination}", flow=True)
        tunnel = self._tunnel(source_id, destination, hop)
        if tunnel is None:
            return self._drop(f"no short id, or no overlay to peer {hop}")
        if key.tunnel == Tunnel(tunnel.vni, tunnel.destination, tunnel.source):
            return self._drop("the frame would return to the peer that it came from")
        return self._decision((), (tunnel,))

    def _flood(self, key, source, known):
        """To all local ports but that of the frame, and along the routes of the peer where it entered the mesh.

        To the gateway only from workloads of this host: others ask their own.
        """
        source_id = self._gossip.short_id(source)
        hops = self._gossip.broadcast(source)
        tunnels = [self._tunnel(source_id, hop, hop) for hop in hops]
        reached = tuple(tunnel for tunnel in tunnels if tunnel is not None)
        # Unknown unicast floods until the address is known. A flood that misses a peer must not stay a flow either.
        flow = known and len(reached) == len(tunnels)
        own = {self._gateway.port} - {""} if self._gateway is not None and key.tunnel is None else set()
        return self._decision(tuple(sorted((self._ports.keys() | own) - {key.port})), reached, flow)

    def _tunnel(self, source_id, destination, hop):
        destination_id = self._gossip.short_id(destination)
        if source_id is None or destination_id is None or hop not in self._remotes:
            return None
        return Tunnel(vni(source_id, destination_id), self._address, self._remotes[hop])

    def _decision(self, ports, tunnels, flow=True):
        slow = {self._remotes[name] for name in self._fallback & self._remotes.keys()}
        fallbacks = tuple(tunnel for tunnel in tunnels if tunnel.destination in slow)
        direct = tuple(tunnel for tunnel in tunnels if tunnel.destination not in slow)
        return Decision(ports, direct, flow and not fallbacks, self.generation, fallbacks=fallbacks)

    def _drop(self, reason, flow=False):
        return Decision((), (), flow, self.generation, reason)


def _group(mac):
    """True for a multicast or broadcast address."""
    return bool(int(mac[:2], 16) & 1)
