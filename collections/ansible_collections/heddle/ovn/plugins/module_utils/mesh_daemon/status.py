# SPDX-License-Identifier: Apache-2.0
"""What a host of a mesh reports: as data, and as text in the words of `weave status connections`."""

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


def text_of(state):
    """Return the lines of `heddle-host mesh status`: `->` a connection that this host opened, `<-` the peer."""
    lines = [
        f"{state['node']} ({state['name']}), short id {state['short_id']}, "
        f"{'bridge ready' if state['bridge'] else 'no bridge'}, {state['misses']} frames without a flow"
    ]
    for one in state["connections"]:
        mark = "->" if one["outbound"] else "<-"
        what = f"{one['overlay']} mtu={one['mtu']}" if one["state"] == "established" else one["why"]
        lines.append(f"{mark} {one['address']:<30} {one['state']:<12} {one['node']} {what}".rstrip())
    lines += [
        f"   {name}: short id {peer['short_id']}, over {peer['next_hop']}"
        for name, peer in sorted(state["peers"].items())
        if peer["next_hop"] not in (name, None)
    ]
    return "\n".join(lines)


def is_well(state):
    """Whether the bridge is there and every connection carries frames."""
    return state["bridge"] and all(one["state"] == "established" for one in state["connections"])


def _node(configuration):
    return lambda name: configuration.peers[name].node


def _nickname(host, name):
    peer = host.gossip.peers.get(name)
    return peer.nickname if peer else None
