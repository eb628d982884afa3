# SPDX-License-Identifier: Apache-2.0
"""The encapsulation of OVN's networks: chosen for a new cluster, kept as long as it exists.

The keys of networks and ports depend on it (ovn-architecture(7), "Tunnel Encapsulations"), so that it cannot change. It
is stored as an object where it is VXLAN, or where it was chosen together with an MTU; without one it is Geneve.
"""

from __future__ import annotations

from ..types.encapsulation import GENEVE, OVERLAYS, Encapsulation
from .snapshot import Snapshot, StoredObject

SETTING = "encapsulation_type"
AUTO = "auto"
CHOICES = (*OVERLAYS, AUTO)
# Value of the setting `mtu` that stands for the one that is chosen with the encapsulation.
CHOSEN_MTU = 0
_CHOICE = StoredObject(kind="Encapsulation", name="overlay")


def encapsulation_of(snapshot: Snapshot) -> Encapsulation:
    """Return the encapsulation of the networks of a cluster."""
    return OVERLAYS[snapshot.objects.get(_CHOICE.key, _CHOICE).spec.get("type", GENEVE.kind)]


def chosen_mtu(snapshot: Snapshot) -> int | None:
    """Return the MTU in bytes that was chosen with the encapsulation, None when none was."""
    return snapshot.objects.get(_CHOICE.key, _CHOICE).spec.get("mtu")


def choose(snapshot: Snapshot, kind: str, mtu: int | None = None) -> None:
    """Store the encapsulation of a new cluster, and the MTU in bytes if that was chosen too."""
    if kind != GENEVE.kind or mtu:
        spec = {"type": kind, **({"mtu": mtu} if mtu else {})}
        snapshot.objects[_CHOICE.key] = StoredObject(kind=_CHOICE.kind, name=_CHOICE.name, spec=spec)
