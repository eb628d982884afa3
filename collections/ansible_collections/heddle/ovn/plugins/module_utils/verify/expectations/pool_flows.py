# SPDX-License-Identifier: Apache-2.0
"""Expected packets between workloads with an address of a pool and hosts or routers, and through an Egress. Pure.

Coil v2: addresses of pools are routed without NAT, so the other end sees the address of the workload. A client of an
Egress is seen with an address of one of its routers, or with that of the router's host where the router is on OVN's
default network, whose gateway router translates once more. That is so for all of its destinations, hosts among them;
connections that these open to the client are not expected to work, as its answers are translated too.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...common.addressing import family, is_within, network_of, plain
from ...render.coil.egress_nat import is_private
from .external_flow import (
    POOL_FROM_HOST,
    POOL_FROM_ROUTER,
    POOL_TO_HOST,
    POOL_TO_ROUTER,
    THROUGH_EGRESS,
    ExternalFlow,
)  # fmt: skip
from .pools import POOLS


def pool_flows(
    plan: dict, hosts: dict[str, list[str]], external: dict[str, list[str]], runner: str | None
) -> Iterator[ExternalFlow]:
    """Yield the expected packets that `runner` sends, or all; `hosts` and `external` have addresses by host.

    A workload is tested with its own host and the next one. Of external hosts, those are tested that are routers in
    the settings: others may have no route to the blocks.
    """
    names = list(plan["nodes"])
    following = dict(zip(names, [*names[1:], *names[:1]], strict=True))
    for name, workload in plan.get("coil", {}).get("workloads", {}).items():
        node = workload["node"]
        near = dict.fromkeys((node, following[node]))
        for address in workload["addresses"]:
            for host in near:
                direct = _direct(plan, name, hosts[host])
                yield from _both_ways(name, node, host, address, direct, runner, POOL_TO_HOST, POOL_FROM_HOST)
            for router, known in _routers(plan, node, external).items():
                direct = _direct(plan, name, known)
                yield from _both_ways(name, node, router, address, direct, runner, POOL_TO_ROUTER, POOL_FROM_ROUTER)
    for name, client in plan.get("egress", {}).get("workloads", {}).items():
        for router, addresses in external.items() if runner in (None, client["node"]) else ():
            for address in addresses:
                yield from _through_egress(plan, hosts, name, router, address)


def _direct(plan: dict, name: str, addresses: list[str]) -> list[str]:
    """Return the addresses that a workload does not reach through an Egress."""
    return [address for address in addresses if through_egress(plan, name, address) is None]


def _both_ways(
    name: str, node: str, other: str, own: str, addresses: list[str], runner: str | None, to: str, back: str
) -> Iterator[ExternalFlow]:
    version = family(own)
    address = next((one for one in addresses if family(one) == version), None)
    if address is None:
        return
    why = "addresses of pools are routed"
    if runner in (None, node):
        yield ExternalFlow(to, node, name, other, name, "", version, address, True, why, seen_as=plain(own))
    if runner in (None, other):
        yield ExternalFlow(back, other, other, name, name, POOLS, version, plain(own), True, why)


def _routers(plan: dict, node: str, external: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the external hosts that are routers of a node by the settings, with the addresses that they are by."""
    known = [one["address"] for one in plan["coil"]["routing"]["routers"] if node in one.get("nodes", [node])]
    same = {name: [one for one in addresses if one in known] for name, addresses in external.items()}
    return {name: addresses for name, addresses in same.items() if addresses}


def through_egress(plan: dict, name: str, address: str) -> str | None:
    """Return the Egress (`namespace/name`) that a workload reaches an address through, None for none.

    What is in a private range is reached directly, unless a destination is in it (Coil's tables 117 and 118). Of two
    with the same destination the first one has it.
    """
    egress = plan.get("egress", {"workloads": {}})
    found: dict[tuple[bool, int], str] = {}
    for gateway in egress["workloads"].get(name, {}).get("egresses", ()):
        for text in egress["gateways"][gateway]["destinations"]:
            is_narrow = is_private(text)
            if is_within(address, [text]) and (is_narrow or not is_private(address)):
                found.setdefault((is_narrow, network_of(text).prefixlen), gateway)
    return found[max(found)] if found else None


def _through_egress(
    plan: dict, hosts: dict[str, list[str]], name: str, target: str, address: str
) -> Iterator[ExternalFlow]:
    gateway, version = through_egress(plan, name, address), family(address)
    client = plan["egress"]["workloads"][name]
    if gateway is None or not any(family(one) == version for one in client["addresses"]):
        return
    pools = plan.get("coil", {}).get("workloads", {})
    routers = {key: one for key, one in plan["egress"]["workloads"].items() if one.get("router_of") == gateway}
    # Hosts let nothing through from pools to OVN's networks, and one direction of a tunnel would be that.
    if any((key in pools) != (name in pools) for key in routers):
        return
    sources = []
    for key, one in routers.items():
        own = one["addresses"] if key in pools else hosts[one["node"]]
        sources += [text for text in own if family(text) == version]
    if not sources or (name in pools and target not in _routers(plan, client["node"], {target: [address]})):
        return
    yield ExternalFlow(
        THROUGH_EGRESS, client["node"], name, target, name, "", version, address, True, f"{gateway} has a router",
        sources=tuple(sorted(sources)),
    )  # fmt: skip


def untested_pools(plan: dict, external: dict[str, list[str]]) -> list[str]:
    """Return one line for what is not tested of address pools."""
    if not plan.get("coil", {}).get("workloads"):
        return []
    routers = {one["address"] for one in plan["coil"]["routing"]["routers"]}
    others = [name for name, addresses in external.items() if not routers & set(addresses)]
    lines = []
    if others:
        lines.append(
            f"address pools to {', '.join(others)}: no router of heddle_settings.coil, so it may have no route"
        )
    if routers:
        lines.append("networks to address pools: routers may lead from the gateways of nodes to the blocks")
    return lines
