# SPDX-License-Identifier: Apache-2.0
"""Adds and removes addresses of a host's links without reading what is there, which takes longer than the change."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ..common.change import Change, Outcome
from ..types.host_network import HostAddress
from .handle import HostKernel
from .reconcile import SUBSTRATE
from .step import Planned, Step, perform


def add_addresses(addresses: Iterable[HostAddress], *, planned: Planned | None = None) -> Outcome:
    """Add addresses that are known to be missing, with the mark; NetlinkError when the kernel refuses one.

    `planned` is called with the changes before the first one.
    """
    with HostKernel() as kernel:
        steps = []
        for one in addresses:
            write = partial(
                kernel.add_address, one.device, one.address, deprecated=one.deprecated, prefix_route=one.prefix_route
            )
            steps.append(Step(_change("create", one), write))
        return perform(steps, write=True, planned=planned)


def remove_addresses(addresses: Iterable[HostAddress]) -> Outcome:
    """Remove addresses that are known to be there, with the mark; NetlinkError when the kernel refuses to."""
    with HostKernel() as kernel:
        steps = [
            Step(_change("delete", one), partial(kernel.remove_address, one.device, one.address)) for one in addresses
        ]
        return perform(steps, write=True)


def _change(action: str, one: HostAddress) -> Change:
    values = {"deprecated": one.deprecated, "prefix route": one.prefix_route}
    ends = ({}, values) if action == "create" else (values, {})
    return Change(SUBSTRATE, action, "address", f"{one.device} {one.address}", one.network, *ends)
