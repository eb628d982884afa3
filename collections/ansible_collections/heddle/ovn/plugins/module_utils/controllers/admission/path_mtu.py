# SPDX-License-Identifier: Apache-2.0
"""Which networks are too large for the tunnels over the hosts' underlay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...api.kinds.mesh_network import ESP
from ...common.addressing import family
from ...store.encapsulation import encapsulation_of
from ...store.snapshot import Snapshot, StoredObject
from ...types.encapsulation import ENCRYPTED_MESH, GENEVE
from ..encapsulation import overhead_between, rooms, titled
from ..kind_names import MESH_KIND, NETWORK_KINDS
from .rules import Refusal

_SETTINGS = "Settings"


def largest(node: StoredObject, overhead: Mapping[int, int]) -> int | None:
    """Return the largest network MTU that a host's underlay permits; None while the underlay MTU is unknown.

    `overhead` has by IP version how many bytes a tunnel adds.
    """
    mtu, addresses = node.spec.get("underlay_mtu"), node.spec.get("encap_ips") or []
    if not mtu or not addresses:
        return None
    return mtu - max(overhead[family(address)] for address in addresses)


def check_path_mtu(before: Snapshot, snapshot: Snapshot) -> Iterator[Refusal]:
    """Reject networks whose packets would not fit into a tunnel between two hosts.

    What the NICs of hosts permit and what was measured between hosts holds for networks that are new or get another
    MTU; that of new hosts' NICs holds for all. Where the underlay shrinks under a network, the host says so, and all
    else goes on.
    """
    wanted = list(_wanted(snapshot))
    known = set(_wanted(before)) if before.of_kind("Node") else set()
    yield from _beyond_interfaces(before, snapshot, wanted, known)
    yield from _beyond_paths(snapshot, [one for one in wanted if one not in known])


def _wanted(snapshot: Snapshot) -> Iterator[tuple[str, str, int]]:
    """Yield (object key, field, MTU) of each network with tunnels; 0 is that of the settings.

    All networks of the mesh share its tunnels, which are encrypted when one of them is; then that of the settings
    counts for each of them.
    """
    default = snapshot.settings["mtu"]
    yield _SETTINGS, "mtu", default
    for entry in snapshot.of_kind(*NETWORK_KINDS):
        if entry.spec["topology"] != "Localnet":
            yield entry.key, "spec.mtu", entry.spec["mtu"] or (default if entry.kind == MESH_KIND else 0)


def _with_known_mtu(snapshot: Snapshot) -> list[StoredObject]:
    return [node for node in snapshot.of_kind("Node") if largest(node, GENEVE.overhead) is not None]


def _is_encrypted(snapshot: Snapshot) -> bool:
    return any(entry.spec.get("encryption") == ESP for entry in snapshot.of_kind(MESH_KIND))


def _beyond_interfaces(
    before: Snapshot, snapshot: Snapshot, wanted: list[tuple[str, str, int]], known: set[tuple[str, str, int]]
) -> Iterator[Refusal]:
    nodes, hosts = _with_known_mtu(snapshot), {node.name for node in _with_known_mtu(before)}
    if not nodes:
        return
    encrypted = _is_encrypted(snapshot)
    # Encryption takes room from all networks of the mesh.
    is_as_before = encrypted == _is_encrypted(before)
    overlay = encapsulation_of(snapshot)
    # The mesh has VXLAN of its own, whose frames may have a VLAN tag: with it they are shorter than with Geneve.
    of_mesh = ENCRYPTED_MESH if encrypted else GENEVE.overhead
    for key, path, mtu in wanted:
        is_mesh = key.startswith(f"{MESH_KIND}/")
        if is_mesh and of_mesh is overlay.overhead and mtu == snapshot.settings["mtu"]:
            # Refused once, for the settings.
            continue
        overhead = of_mesh if is_mesh else overlay.overhead
        is_known = (key, path, mtu) in known and (is_as_before or not is_mesh)
        room = {node.name: largest(node, overhead) for node in nodes if not is_known or node.name not in hosts}
        narrowest = min(room, key=lambda name: (room[name], name), default=None)
        if narrowest and mtu > room[narrowest]:
            which = "encrypted " if is_mesh and encrypted else ""
            yield (
                key, path,
                f"{mtu} does not fit into the {which}tunnels of {narrowest}, "
                f"whose underlay has room for {room[narrowest]}",
                f"use {room[narrowest]} or less, or raise the underlay's MTU on all hosts",
            )  # fmt: skip


def _beyond_paths(snapshot: Snapshot, wanted: list[tuple[str, str, int]]) -> Iterator[Refusal]:
    overlay = encapsulation_of(snapshot)
    found = rooms(snapshot, overlay)
    if not found or not snapshot.settings.get("ovn", True):
        return
    nodes = {node.name: node for node in snapshot.of_kind("Node")}
    source, target = min(found, key=lambda pair: (found[pair], pair))
    room = found[source, target]
    size = room + overhead_between(overlay, nodes[source], nodes[target])
    carried = f"gets through with packets of up to {size} bytes" if size > 0 else "does not get through"
    for key, path, mtu in wanted:
        if mtu > room and not key.startswith(f"{MESH_KIND}/"):
            remedy = f"use {room} or less, or raise the MTU of that path" if size > 0 else (
                f"let UDP {overlay.udp_port} through between all hosts, then -e heddle_probe_underlay=true"
            )  # fmt: skip
            rule = f"{mtu} does not fit into the tunnels from {source} to {target}: {titled(overlay)} {carried}"
            yield key, path, rule, remedy
