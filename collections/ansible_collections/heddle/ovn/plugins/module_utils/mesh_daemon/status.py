# SPDX-License-Identifier: Apache-2.0
"""What the daemon of a mesh reports, as data."""

from __future__ import annotations

from ..mesh.heartbeat import ETHERNET_HEADER
from .link import FAST_DATAPATH, SLEEVE


def describe(host, now, no_esp=""):
    """Return the state of a host's mesh as JSON: its peers, its connections, its routes and what it dropped.

    `no_esp` says why this host has no ESP for an encrypted mesh.
    """
    own = host.configuration
    return {
        "node": own.node,
        "name": own.name,
        "address": own.address,
        "short_id": host.gossip.short_id(own.name),
        "bridge": host.datapath.is_ready,
        "mtu": own.mtu,
        "encrypted": own.encrypted,
        "connections": [_connection(host, name, now, no_esp) for name in sorted(own.neighbours, key=_node(own))],
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


def _connection(host, name, now, no_esp):
    peer, link = host.configuration.peers[name], host.links.get(name)
    entry = {"node": peer.node, "address": f"{peer.address}:{host.configuration.control_port}"}
    if link is None:
        failure = host.failures.get(name, "")
        return {**entry, "outbound": True, "state": "failed" if failure else "connecting", "why": failure}
    entry |= {
        "outbound": link.connection.outbound,
        "state": "established" if link.overlay else "pending",
        "overlay": link.overlay,
        "encrypted": link.is_encrypted,
        "why": _why(host, link, now, no_esp),
        "seconds": round(now - link.since),
        "overlays": {overlay: _overlay(link, overlay, now) for overlay in link.selection.beats},
    }
    if link.overlay is not None:
        entry["rtt"] = entry["overlays"][link.overlay]["rtt"]
        entry["mtu"] = host.configuration.mtu
        entry["flows"] = host.datapath.flows_of(link.address)
        entry["chosen_seconds"] = round(now - link.chosen_since, 1)
    if SLEEVE in link.selection.beats:
        entry["fallback"] = {"mtu": link.fallback_mtu, "searching": not link.path.finished}
    return entry


def _overlay(link, overlay, now):
    """Heartbeats of one overlay: the round trip in seconds, and how long ago one arrived, or was acknowledged."""
    beats = link.selection.beats[overlay]
    return {
        "works": link.selection.sends(overlay),
        "rtt": None if beats.rtt is None else round(beats.rtt, 6),
        "heard": _ago(beats.heard, now),
        "confirmed": _ago(beats.confirmed, now),
        "lost": beats.lost,
    }


def _why(host, link, now, no_esp):
    """Why the preferred overlay does not carry the frames; empty when it does."""
    if link.overlay == FAST_DATAPATH:
        return ""
    if link.overlay is None and not any(beats.heard is not None for beats in link.selection.beats.values()):
        return link.problem or "waiting for a heartbeat"
    if link.overlay is None:
        return "no heartbeat of the peer arrives"
    if FAST_DATAPATH not in host.overlays:
        return f"{FAST_DATAPATH}: {no_esp}"
    if FAST_DATAPATH not in link.selection.beats:
        return f"the peer has no {FAST_DATAPATH}"
    if not host.datapath.is_ready:
        return f"{FAST_DATAPATH}: no bridge on this host"
    confirmed = link.selection.beats[FAST_DATAPATH].confirmed
    since = "" if confirmed is None else f" for {now - confirmed:.0f} s"
    return f"{FAST_DATAPATH}: no packet of {host.configuration.mtu + ETHERNET_HEADER} bytes arrives{since}"


def _ago(moment, now):
    return None if moment is None else round(now - moment, 3)


def _node(configuration):
    return lambda name: configuration.peers[name].node


def _nickname(host, name):
    peer = host.gossip.peers.get(name)
    return peer.nickname if peer else None
