# SPDX-License-Identifier: Apache-2.0
"""Waits for the links of Open vSwitch's internal ports, which are the host's own interfaces."""

from __future__ import annotations

from ..netlink import kernel
from ..ovsdb.reconcile import Row
from ..ovsdb.vswitchd import TIMEOUT, await_reconfiguration, interface_errors


def internal_ports(rows: list[Row]) -> dict[str, str]:
    """Return the MAC addresses that internal ports of the desired rows get, by name."""
    columns = [row.columns for row in rows if row.table == "Interface"]
    return {one["name"]: one["mac"] for one in columns if one.get("type") == "internal" and one.get("mac")}


def await_internal_ports(client, macs: dict[str, str], announced: int | None, timeout: float = TIMEOUT) -> dict:
    """Wait until the links of internal ports, with their MAC addresses by name, are as Open vSwitch leaves them.

    In the userspace datapath they are taps, and ovs-vswitchd takes a tap down for a moment to set its MAC address, some
    time after it has made it (`netdev_linux_set_etheraddr`): the kernel then drops the IPv4 routes and the IPv6
    addresses that were set by then. `announced` is the number of `next_cfg` that came with the rows, if one did.

    Return why links are missing, by name. `TimedOut` when ovs-vswitchd does nothing for `timeout` seconds.
    """
    if not macs or _has_all(macs):
        return {}
    await_reconfiguration(client, announced, timeout)
    links = kernel.read_links(None)
    missing = sorted(macs.keys() - links.keys())
    errors = interface_errors(client, missing) if missing else {}
    return {
        name: f"ovs-vswitchd did not create it ({errors.get(name) or 'no reason given'}); see its log on this host"
        for name in missing
    }


def _has_all(macs: dict[str, str]) -> bool:
    links = kernel.read_links(None)
    return all(name in links and links[name]["mac"] == mac for name, mac in macs.items())
