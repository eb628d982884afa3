# SPDX-License-Identifier: Apache-2.0
"""The state of a host's mesh as text, in the words of `weave status connections`."""

from __future__ import annotations


def text_of(state):
    """Return the lines of `heddle-host mesh status`: `->` a connection that this host opened, `<-` the peer."""
    lines = [
        f"{state['node']} ({state['name']}), short id {state['short_id']}, "
        f"{'bridge ready' if state['bridge'] else 'no bridge'}, {state['misses']} frames without a flow"
    ]
    for one in state["connections"]:
        mark = "->" if one["outbound"] else "<-"
        what = _carried(one) if one["state"] == "established" else one["why"]
        lines.append(f"{mark} {one['address']:<30} {one['state']:<12} {one['node']} {what}".rstrip())
    lines += [
        f"   {name}: short id {peer['short_id']}, over {peer['next_hop']}"
        for name, peer in sorted(state["peers"].items())
        if peer["next_hop"] not in (name, None)
    ]
    return "\n".join(lines)


def _carried(one):
    """The overlay, why it is not the preferred one, and what it carries."""
    because = f" ({one['why']})" if one["why"] else ""
    fallback = one.get("fallback")
    pieces = ""
    if one["overlay"] == "sleeve" and fallback["mtu"] < one["mtu"]:
        pieces = f" path={fallback['mtu']}{'...' if fallback['searching'] else ''}"
    overlay = f"encrypted {one['overlay']}" if one["encrypted"] else one["overlay"]
    return f"{overlay} mtu={one['mtu']}{pieces} rtt={one['rtt'] * 1000:.1f}ms flows={one['flows']}{because}"


def is_well(state):
    """Whether the bridge is there and every connection carries frames."""
    return state["bridge"] and all(one["state"] == "established" for one in state["connections"])
