# SPDX-License-Identifier: Apache-2.0
"""Migrates the IP configuration of an uplink to its bridge and back.

Connectivity is kept at every moment, also when interrupted: an address is added on one side before it is removed from
the other, a route changes its device in one step, and the kernel answers for an address on whichever device a packet
arrives. The next run moves what is left.
"""

from __future__ import annotations

from ..common.change import Change, Outcome
from ..common.errors import NetlinkError
from . import kernel
from .device import Device, add_address, move_route, read_device, remove_address
from .step import Step, perform

SUBSTRATE = "kernel"
_ABSENT = Device(0, "", 0, False, (), (), ())


def move_device(source: str, target: str, *, write: bool) -> Outcome:
    """Move all addresses and routes from one device to another, which is brought up with the source's MTU.

    Raises NetlinkError when the source has a leased address: its DHCP client would put it back.
    """
    before, after = read_device(source), read_device(target)
    if before is None:
        raise NetlinkError(f"there is no interface {source}; this host has {', '.join(kernel.read_links(None))}")
    if before.leased:
        raise NetlinkError(
            f"{source} has the leased address {before.leased[0]}: its DHCP client would conflict with {target}. "
            "Give the host a static address, or let its own network configuration make the bridge"
        )
    there = after or _ABSENT
    if not before.addresses and not before.routes and there.up and there.mtu == before.mtu:
        return Outcome()
    moved = Device(
        0, "", before.mtu, True, _united(there.addresses, before.addresses), _united(there.routes, before.routes), ()
    )
    change = Change(
        SUBSTRATE, "update", "addresses", target, "",
        {source: before.texts(), target: {**there.texts(), "mtu": there.mtu, "up": there.up}},
        {source: {"addresses": [], "routes": []}, target: {**moved.texts(), "mtu": before.mtu, "up": True}},
    )  # fmt: skip
    return perform([Step(change, lambda: _move(source, before, target))], write=write)


def _united(there: tuple, coming: tuple) -> tuple:
    known = {item.text for item in there}
    return there + tuple(item for item in coming if item.text not in known)


def _move(source: str, before: Device, target: str) -> None:
    kernel.change_link(None, source, state="up")
    kernel.change_link(None, target, state="up", mtu=before.mtu)
    index = read_device(target).index
    for address in before.addresses:
        add_address(index, address)
    for route in before.routes:
        move_route(index, route)
    # The kernel removes all routes through a device with its last address, also those that were added meanwhile.
    for route in read_device(source).routes:
        move_route(index, route)
    for address in before.addresses:
        remove_address(before.index, address)
