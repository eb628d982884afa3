# SPDX-License-Identifier: Apache-2.0
"""What the daemon of a mesh reports, as data."""

from __future__ import annotations

from .host import FAST_DATAPATH


def describe(host, now):
    """Return the state of a host's mesh as JSON: its peers, its connections, its routes and what it dropped."""
    own = host.configuration
    return {
        "node": own.node,
        "name": own.name,
        "address": own.address,
        "short_id": host.gossip.short_id(own.name),
        "bridge": host.datapath.is_ready,
        "mtu": own.mtu,
        "connections": [_connection(host, name, now) for name in sorted(own.neighbours, key=_node(own))],
        "peers": {
            peer.nickname: {
                "short_id": host.gossip.short_id(name),
                "next_hop": _nickname(host, host.gossip.unicast.get(name)),
            }
            for name, peer in host.gossip.peers.items()
            if name != own.name
        },
        "misses": host.datapath.misses,
        "dropped": dict(host.datapath.dropped),
    }


def _connection(host, name, now):
    peer, link = host.configuration.peers[name], host.links.get(name)
    entry = {"node": peer.node, "address": f"{peer.address}:{host.configuration.control_port}"}
    if link is None:
        failure = host.failures.get(name, "")
        return {**entry, "outbound": True, "state": "failed" if failure else "connecting", "why": failure}
    outbound = link.connection.outbound
    if link.works:
        return {
            **entry, "outbound": outbound, "state": "established", "overlay": FAST_DATAPATH,
            "mtu": host.configuration.mtu, "seconds": round(now - link.since),
        }  # fmt: skip
    why = link.problem or ("no heartbeat of the peer arrives" if not link.heartbeats.healthy else "")
    return {**entry, "outbound": outbound, "state": "pending", "why": why or "waiting for a heartbeat"}


def _node(configuration):
    return lambda name: configuration.peers[name].node


def _nickname(host, name):
    peer = host.gossip.peers.get(name)
    return peer.nickname if peer else None
