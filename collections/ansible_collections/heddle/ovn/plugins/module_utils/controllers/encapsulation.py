# SPDX-License-Identifier: Apache-2.0
"""Chooses encapsulation and MTU of a new cluster from what gets through between its hosts.

A node reports in `paths` what it sends to each other one: `{node: {"geneve": bytes, "vxlan": bytes}}`, the length of
the largest IP packet that arrives without being fragmented, 0 if none does. `path_problems` says by encapsulation why a
node receives none.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..common.addressing import family
from ..common.text.some_of import some_of
from ..store import layer2_version
from ..store.encapsulation import AUTO, CHOSEN_MTU, SETTING, choose, chosen_mtu, encapsulation_of
from ..store.settings import DEFAULTS, cluster_subnets
from ..store.snapshot import Snapshot, StoredObject
from ..types.encapsulation import GENEVE, OVERLAYS, VXLAN, Encapsulation
from .admission.rules import Refusal

# Order of preference: Geneve also carries the ingress port, and OVN has more keys with it.
PREFERRED = (GENEVE, VXLAN)
_SETTINGS = "Settings"
# RFC 8200, section 5; RFC 791, section 3.2.
_LEAST_MTU = {6: 1280, 4: 576}
_ANNOUNCED = {GENEVE.kind: "Geneve", VXLAN.kind: "VXLAN"}


def titled(overlay: Encapsulation) -> str:
    """Return an encapsulation as text, with its port."""
    return f"{_ANNOUNCED[overlay.kind]} (UDP {overlay.udp_port})"


def overhead_between(overlay: Encapsulation, *nodes: StoredObject) -> int:
    """Return by how many bytes tunnelled packets between nodes are longer than the packets inside, at most."""
    addresses = [address for node in nodes for address in node.spec.get("encap_ips") or []]
    return max(overlay.overhead[family(address)] for address in addresses) if addresses else 0


def rooms(snapshot: Snapshot, overlay: Encapsulation) -> dict[tuple[str, str], int]:
    """Return the largest network MTU, in bytes, by the pair of nodes (from, to) whose path was measured.

    0 or less where the encapsulation does not get through.
    """
    nodes = {node.name: node for node in snapshot.of_kind("Node")}
    return {
        (source, target): found.get(overlay.kind, 0) - overhead_between(overlay, nodes[source], nodes[target])
        for source, node in nodes.items()
        for target, found in (node.spec.get("paths") or {}).items()
        if target in nodes
    }


def decide(before: Snapshot, after: Snapshot) -> Iterator[Refusal]:
    """Choose for a new cluster, keep what an existing one has; the setting `mtu` of `after` becomes a number."""
    wanted = after.settings[SETTING]
    if before.of_kind("Node"):
        kept = encapsulation_of(before).kind
        if wanted not in (AUTO, kept):
            yield (
                _SETTINGS, SETTING,
                f"{wanted} can only be chosen for a cluster that has no hosts yet: the keys of networks depend on it, "
                f"and this one has {kept}",
                f"write {kept} or {AUTO}",
            )  # fmt: skip
        _set_mtu(after, chosen_mtu(before))
        return
    if wanted != AUTO:
        choose(after, wanted)
        yield from _unsupported(after, OVERLAYS[wanted])
        return
    if after.settings.get("ovn", True):
        yield from _choose(after)
    _set_mtu(after, chosen_mtu(after))


def _set_mtu(snapshot: Snapshot, mtu: int | None) -> None:
    if snapshot.settings["mtu"] == CHOSEN_MTU:
        snapshot.settings = {**snapshot.settings, "mtu": mtu or DEFAULTS["mtu"]}


def _choose(snapshot: Snapshot) -> Iterator[Refusal]:
    unknown = list(_unmeasured(snapshot))
    if unknown:
        yield from unknown
        return
    least = _least_mtu(snapshot)
    asked = snapshot.settings["mtu"]
    candidates = {}
    for overlay in PREFERRED:
        room = min([*rooms(snapshot, overlay).values(), *_limits(snapshot, overlay)], default=None)
        if not list(_unsupported(snapshot, overlay)) and (room is None or room >= least):
            candidates[overlay.kind] = room
    fitting = [kind for kind, room in candidates.items() if room is None or asked == CHOSEN_MTU or room >= asked]
    chosen = next(iter(fitting or candidates), None)
    if chosen is None:
        yield from _blocked(snapshot, least)
        return
    # A given MTU that does not fit is refused where those of networks are. The chosen one also has to pass beyond the
    # hosts, over paths whose MTU is unknown, so it is never more than the default.
    room = candidates[chosen]
    choose(snapshot, chosen, min(room or DEFAULTS["mtu"], DEFAULTS["mtu"]) if asked == CHOSEN_MTU else None)


def _least_mtu(snapshot: Snapshot) -> int:
    return max(_LEAST_MTU[family(one["cidr"])] for one in cluster_subnets(snapshot.settings))


def _limits(snapshot: Snapshot, overlay: Encapsulation) -> list[int]:
    """Return what the NICs of the nodes leave room for, of those that reported it."""
    return [
        node.spec["underlay_mtu"] - overhead_between(overlay, node)
        for node in snapshot.of_kind("Node")
        if node.spec.get("underlay_mtu") and node.spec.get("encap_ips")
    ]


def _unmeasured(snapshot: Snapshot) -> Iterator[Refusal]:
    names = [node.name for node in snapshot.of_kind("Node")]
    missing = [
        f"{node.name} to {other}"
        for node in snapshot.of_kind("Node")
        for other in names
        if other != node.name and other not in (node.spec.get("paths") or {})
    ]
    if missing:
        yield (
            _SETTINGS, SETTING,
            f"the paths between hosts were not measured: {some_of(missing)}",
            "run heddle.ovn.networks for all hosts when they answer, or choose geneve or vxlan",
        )  # fmt: skip


def _unsupported(snapshot: Snapshot, overlay: Encapsulation) -> Iterator[Refusal]:
    """Reject VXLAN with gateway routers on Layer2 switches, which nothing tests with it."""
    if overlay is VXLAN and snapshot.settings[layer2_version.SETTING] == "gateway-router":
        yield (
            _SETTINGS, SETTING, "vxlan needs transit routers in Layer2 networks",
            f"leave {layer2_version.SETTING} out, or choose geneve",
        )  # fmt: skip


def _blocked(snapshot: Snapshot, least: int) -> Iterator[Refusal]:
    """Name each pair that neither encapsulation gets through, or that one is missing for."""
    nodes = {node.name: node for node in snapshot.of_kind("Node")}
    found = {overlay.kind: rooms(snapshot, overlay) for overlay in PREFERRED}
    for pair in found[GENEVE.kind]:
        parts = [_state(nodes[pair[1]], overlay, found[overlay.kind][pair], nodes[pair[0]]) for overlay in PREFERRED]
        if any(found[overlay.kind][pair] < least for overlay in PREFERRED):
            yield (
                _SETTINGS, SETTING,
                f"{pair[0]} to {pair[1]}: {', '.join(parts)}; every pair of hosts needs the same encapsulation, with "
                f"room for packets of {least} bytes",
                f"let UDP {GENEVE.udp_port} through in both directions (or UDP {VXLAN.udp_port} between all hosts), or "
                "raise the underlay's MTU",
            )  # fmt: skip


def _state(receiver: StoredObject, overlay: Encapsulation, room: int, sender: StoredObject) -> str:
    problem = (receiver.spec.get("path_problems") or {}).get(overlay.kind)
    size = room + overhead_between(overlay, sender, receiver)
    if problem:
        return f"{titled(overlay)} does not get through ({problem})"
    return f"{titled(overlay)} " + (f"gets through with {size} bytes" if size > 0 else "does not get through")
