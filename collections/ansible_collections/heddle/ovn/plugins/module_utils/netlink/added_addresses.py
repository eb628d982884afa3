# SPDX-License-Identifier: Apache-2.0
"""Adds addresses to a host's links without reading what is there, which takes longer than the change itself."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ..common.change import Change, Outcome
from ..types.host_network import HostAddress
from .handle import HostKernel
from .reconcile import SUBSTRATE
from .step import Step, perform


def add_addresses(addresses: Iterable[HostAddress]) -> Outcome:
    """Add addresses that are known to be missing, with the mark; NetlinkError when the kernel refuses one."""
    with HostKernel() as kernel:
        steps = []
        for one in addresses:
            after = {"deprecated": one.deprecated, "prefix route": one.prefix_route}
            change = Change(SUBSTRATE, "create", "address", f"{one.device} {one.address}", one.network, {}, after)
            write = partial(
                kernel.add_address, one.device, one.address, deprecated=one.deprecated, prefix_route=one.prefix_route
            )
            steps.append(Step(change, write))
        return perform(steps, write=True)
