# SPDX-License-Identifier: Apache-2.0
"""Announces the addresses that the host gets for others: its neighbours may know them at another host.

That is after the flows that packets to them need. It is noted before the address is set, so that a later run announces
what a killed one has set (`follow_ups.py`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable

from ..common.addressing import plain
from ..common.change import Change, Outcome
from ..common.databases import VSWITCH_REMOTE
from ..netlink.device import read_device_mac
from ..netlink.protocol.frames import send_frame
from ..openflow.switch import Switch
from ..render.common.provider import provider_of
from ..render.egress.announcements import announcement, render_egress_announcements
from ..render.host.links_and_routes import render_held_addresses
from . import follow_ups
from .module_runner import connected


def note_new(plan: dict, node: str, changes: Iterable[Change]) -> None:
    """Note which addresses are about to be set by `changes` and have to be announced."""
    wanted = _announced(plan, node)
    made = created(changes) & wanted.keys()
    if made:
        follow_ups.note(follow_ups.ANNOUNCEMENTS, made)


def created(changes: Iterable[Change]) -> set[str]:
    """Return the addresses that changes set, each with its device."""
    return {change.name for change in changes if (change.kind, change.action) == ("address", "create")}


def announce(plan: dict, node: str, names: Collection[str]) -> Outcome:
    """Announce those of `names`, addresses with their devices, that the host has for others by the plan.

    Another NIC that is missing or down keeps its addresses noted, and the outcome says so.
    """
    wanted = _announced(plan, node)
    by_uplink: list[str] = []
    failed: dict[str, str] = {}
    for name in sorted(wanted.keys() & set(names)):
        nic, address = wanted[name]
        if not nic:
            by_uplink.append(address)
            continue
        mac = read_device_mac(nic)
        try:
            if mac is None:
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
            send_frame(nic, announcement(mac, address))
        except OSError as error:
            failed[name] = (
                f"egress address {address} is not announced: {nic}: {error.strerror}; run heddle.ovn.networks when the "
                "NIC is up"
            )
    if by_uplink:
        provider = provider_of(plan["nodes"][node])
        with connected(VSWITCH_REMOTE, write=True) as client:
            frames = render_egress_announcements(plan, node, by_uplink)
            Switch(client).send(provider.bridge, provider.uplink, frames)
    follow_ups.done(follow_ups.ANNOUNCEMENTS, set(names) - failed.keys())
    return Outcome(notes=tuple(failed.values()))


def announce_noted(plan: dict, node: str) -> Outcome:
    """Announce what is noted, by this run or one that was killed; all addresses are set as the plan has them."""
    return announce(plan, node, follow_ups.noted(follow_ups.ANNOUNCEMENTS))


def _announced(plan: dict, node: str) -> dict[str, tuple[str, str]]:
    """Return NIC ("": the provider bridge) and address of what the host has for others, by device and address."""
    held = render_held_addresses(plan, node)
    bridge = provider_of(plan["nodes"][node]).bridge if held else ""
    return {
        f"{one.device} {one.address}": ("" if one.device == bridge else one.device, plain(one.address)) for one in held
    }
