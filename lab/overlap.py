# SPDX-License-Identifier: Apache-2.0
"""Do the lab's subnets overlap what this machine uses? A lab must not shadow a network that the machine needs."""

import ipaddress
import json
import subprocess

from lab.errors import LabError


def machine_networks(addresses, routes):
    """[(network, what it is)] from the JSON of `ip address` and of `ip route` for both families."""
    found = []
    for link in addresses:
        for address in link.get("addr_info", []):
            if "local" in address:
                text = f"{address['local']}/{address['prefixlen']}"
                found.append((ipaddress.ip_interface(text).network, f"address {text} on {link['ifname']}"))
    for route in routes:
        destination = route.get("dst", "default")
        if destination == "default" or route.get("type") in ("local", "broadcast", "multicast", "anycast"):
            continue
        try:
            network = ipaddress.ip_network(destination, strict=False)
        except ValueError:
            continue
        if network.prefixlen and not network.is_multicast:
            found.append((network, f"route {destination} on {route.get('dev', route.get('type', 'this machine'))}"))
    return found


def overlaps(subnets, used):
    """One sentence per subnet of the lab and network of the machine that overlap."""
    return [
        f"{segment} {subnet} overlaps {what}"
        for segment, members in subnets.items()
        for subnet in members
        for network, what in used
        if subnet.version == network.version and subnet.overlaps(network)
    ]


def _ip(*words):
    try:
        done = subprocess.run(["ip", "-json", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise LabError(
            "there is no command ip to read this machine's routes with", "run: python -m lab packages"
        ) from None
    return json.loads(done.stdout or "[]") if done.returncode == 0 else []


def refuse(network):
    """Raise when the lab cannot use its subnets here."""
    routes = _ip("-4", "route", "show", "table", "all") + _ip("-6", "route", "show", "table", "all")
    found = overlaps(network.subnets(), machine_networks(_ip("address"), routes))
    if found:
        raise LabError(
            f"the lab's subnets are in use on this machine: {'; '.join(found)}",
            "set LAB_NETWORK_PREFIX (now " + network.prefix + ") or LAB_NETWORK_PREFIX6 (now " + network.prefix6 + ")"
            " to a part that is free",
        )
