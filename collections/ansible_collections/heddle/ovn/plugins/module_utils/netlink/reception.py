# SPDX-License-Identifier: Apache-2.0
"""What the host itself receives on the switch's end of a workload's link.

With the kernel's datapath it receives nothing there. A userspace datapath reads copies of the frames, and the kernel
has the originals: it would answer ARP for the management port, and take in what is sent to an address of the host or
to a broadcast MAC, past the workload's network. The link's group stands for the rule of the table
`inet heddle-userspace` that drops such packets.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..common.naming import USERSPACE_LINKS
from . import kernel
from .link_settings import set_answers_arp


def reception(link: dict) -> dict[str, bool]:
    """Return what the host does on a link, as `kernel.read_links` returns it."""
    return {"host answers ARP": link["answers"], "host receives packets": link["group"] != USERSPACE_LINKS}


def set_reception(name: str, *, receives: bool) -> None:
    """Make the host answer ARP and receive packets on a link, or neither."""
    set_answers_arp(name, answers=receives)
    kernel.change_link(None, name, group=0 if receives else USERSPACE_LINKS)


def stale_links(networks: Mapping[str, str], links: dict[str, dict]) -> dict[str, str]:
    """Return those of `networks`, by name of a link, whose link is there and has no program that receives on it."""
    return {name: network for name, network in networks.items() if name in links and not links[name]["promiscuous"]}
