# SPDX-License-Identifier: Apache-2.0
"""Packets to trace with ovn-trace: the first one between two hosts that policies permit, for each topology. Pure.

ovn-trace covers one zone, so a packet between hosts has two legs: from its sender to the tunnel, and from the tunnel,
where it enters by the remote port of the switch that spans the zones, to its receiver.
"""

from __future__ import annotations

from itertools import permutations

from ..common.addressing import GATEWAY_OFFSET, family, mac_of_address, nth_address, plain
from ..common.naming import LOCKED_ROLE, layer2_switch, node_switch, transit_switch, transit_switch_port
from .expectations.policy_permissions import PolicyPermissions
from .probing.datagram import PORT

TIME_TO_LIVE = 64
TUNNELLED = ("Layer2", "Layer3")


def traced_packets(plan: dict) -> list[dict]:
    """Return legs of packets, Layer2 first: `title`, the `node` to trace on, ovn-trace's `datapath` and `microflow`.

    User-defined networks come before the default one.
    """
    found, policies = {}, PolicyPermissions(plan)
    for network, names in sorted(_attached(plan).items(), key=lambda one: plan["networks"][one[0]]["id"] == 0):
        topology = plan["networks"][network]["topology"]
        if topology not in found and (ends := _first_permitted(plan, policies, network, names)):
            found[topology] = (network, *ends)
    return [leg for topology in sorted(found) for leg in _legs(plan, *found[topology])]


def packets_between(plan: dict, source: str, target: str, network: str = "") -> list[dict]:
    """Return the legs of a packet between two workloads; none without a common network of a traced topology.

    `network` chooses among several; without it, user-defined networks come before the default one.
    """
    common = [
        one["network"]
        for one in plan["workloads"][source]["interfaces"]
        if network in ("", one["network"]) and _is_traced(plan, one)
        if any(_is_traced(plan, other) and other["network"] == one["network"]
               for other in plan["workloads"][target]["interfaces"])
    ]  # fmt: skip
    if not common or source == target:
        return []
    legs = _legs(plan, min(common, key=lambda name: plan["networks"][name]["id"] == 0), source, target)
    return legs[:1] if legs[0]["node"] == legs[1]["node"] else legs


def _is_traced(plan: dict, interface: dict) -> bool:
    """Return whether packets of an interface can be traced.

    Without IPAM, addresses are those that workloads request, and need not be in one subnet.
    """
    network = plan["networks"][interface["network"]]
    return interface["role"] != LOCKED_ROLE and bool(network["subnets"]) and network["topology"] in TUNNELLED


def _attached(plan: dict) -> dict[str, list[str]]:
    """Return the workloads of each network whose packets can be traced."""
    attached: dict[str, list[str]] = {}
    for name, workload in plan["workloads"].items():
        for interface in workload["interfaces"]:
            if _is_traced(plan, interface):
                attached.setdefault(interface["network"], []).append(name)
    return attached


def _first_permitted(plan: dict, policies: PolicyPermissions, network: str, names: list[str]) -> tuple[str, ...]:
    """Return the first two workloads on different nodes between which policies permit the packet, if any."""
    nodes = {name: plan["workloads"][name]["node"] for name in names}
    if len({*nodes.values()}) < 2:
        return ()
    for source, target in permutations(names, 2):
        if nodes[source] != nodes[target]:
            ends = tuple(plain(_interface(plan, name, network)["addresses"][0]) for name in (source, target))
            if not policies.refusal(network, source, target, ends, "UDP", PORT):
                return source, target
    return ()


def _legs(plan: dict, network: str, source: str, target: str) -> list[dict]:
    described = plan["networks"][network]
    nodes = [plan["workloads"][name]["node"] for name in (source, target)]
    here, there = (_interface(plan, name, network) for name in (source, target))
    sender, receiver = plain(here["addresses"][0]), plain(there["addresses"][0])
    if described["topology"] == "Layer2":
        hops = [(layer2_switch(network), here["port"], here["mac"], there["mac"], TIME_TO_LIVE)] * 2
    else:
        gateway = mac_of_address(nth_address(described["host_subnets"][nodes[0]][0], GATEWAY_OFFSET))
        transit = described["transit_subnets"][0]
        routers = [mac_of_address(nth_address(transit, plan["nodes"][node]["id"])) for node in nodes]
        hops = [
            (node_switch(network, nodes[0]), here["port"], here["mac"], gateway, TIME_TO_LIVE),
            (transit_switch(network), transit_switch_port(network, nodes[0]), *routers, TIME_TO_LIVE - 1),
        ]
    title = f"{source} -> {target} (network {network}, {sender} -> {receiver})"
    return [
        {"title": title, "node": node, "datapath": hop[0], "microflow": _microflow(*hop[1:], sender, receiver)}
        for node, hop in zip(nodes, hops, strict=True)
    ]


def _microflow(port: str, source_mac: str, target_mac: str, time_to_live: int, sender: str, receiver: str) -> str:
    version = family(sender)
    return (
        f'inport == "{port}" && eth.src == {source_mac} && eth.dst == {target_mac} && '
        f"ip{version}.src == {sender} && ip{version}.dst == {receiver} && ip.ttl == {time_to_live} && "
        f"udp && udp.src == {PORT + 1} && udp.dst == {PORT}"
    )


def _interface(plan: dict, workload: str, network: str) -> dict:
    return next(one for one in plan["workloads"][workload]["interfaces"] if one["network"] == network)


def trace_text(traces: list[dict]) -> str:
    """Return one text of all traces: legs with ovn-trace's output as `text`.

    A packet begins with a line `== TITLE`, a leg with a line `-- on NODE`.
    """
    titles = dict.fromkeys(trace["title"] for trace in traces)
    lines = []
    for title in titles:
        lines.append(f"== {title}")
        for trace in (one for one in traces if one["title"] == title):
            lines += [f"-- on {trace['node']}", trace["text"].strip(), ""]
    return "\n".join(lines) + "\n" if lines else ""


def joined_traces(hosts: dict[str, list[dict]]) -> str:
    """Return one text of the `traces` of several hosts (`host_inspection.py`), in the order of `traced_packets`."""
    return trace_text(sorted((one for traces in hosts.values() for one in traces), key=lambda one: one["place"]))
