# SPDX-License-Identifier: Apache-2.0
"""What of the inventory contradicts a host's interfaces and addresses, before the host is changed: ip-address(8)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ...module_utils.common.next_hops import next_hop_problem
from ...module_utils.common.text.nearest import nearest


def network_problems(host: str, text: str, variables: dict) -> list[str]:
    """Return one line for each mistake; none if `text` is not what `ip -json address` prints.

    `variables` are those of meta/variables/hosts.yml, without the ones that are not set.
    """
    try:
        links = {link["ifname"]: link for link in json.loads(text) if link}
    except (ValueError, TypeError, KeyError):
        return []
    if not links:
        return []
    found = [*_interface_mistakes(links, variables), *_next_hop_mistakes(links, variables)]
    return [f"host {host}: {line}" for line in found]


def _interface_mistakes(links: dict[str, dict], variables: dict) -> Iterator[str]:
    named = {name: variables.get(name) for name in ("heddle_underlay_interface", "heddle_uplink")}
    networks = variables.get("heddle_physical_networks") or {}
    named |= {f"heddle_physical_networks.{name}.uplink": entry.get("uplink") for name, entry in networks.items()}
    for variable, name in named.items():
        if name and name not in links:
            other = next((one for one, link in links.items() if name in link.get("altnames", ())), None)
            known = ", ".join(one for one in links if one != "lo")
            remedy = f"write {other}, whose other name this is" if other else nearest(name, links)
            yield f"{variable}: there is no interface {name}; {remedy or f'the host has {known}'}"


def _next_hop_mistakes(links: dict[str, dict], variables: dict) -> Iterator[str]:
    uplink = variables.get("heddle_uplink")
    if not uplink or uplink not in links:
        return
    # After the installation the bridge has the uplink's addresses.
    bridge = variables.get("heddle_provider_bridge") or "br-ex"
    addresses = [
        f"{held['local']}/{held['prefixlen']}"
        for name in (uplink, bridge)
        for held in links.get(name, {}).get("addr_info", ())
        if "local" in held and "prefixlen" in held
    ]
    for number, hop in enumerate(variables.get("heddle_provider_next_hops") or ()):
        problem = next_hop_problem(hop, uplink, addresses)
        if problem:
            remedy = "write the address of a router in the provider network"
            yield f"heddle_provider_next_hops[{number}]: {problem}; {remedy}"
