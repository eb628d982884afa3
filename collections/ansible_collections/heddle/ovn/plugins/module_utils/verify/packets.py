# SPDX-License-Identifier: Apache-2.0
"""Packets worth tracing: the first one between two hosts, for each topology. Pure."""

from __future__ import annotations

from itertools import permutations

from ..addressing import GATEWAY_OFFSET, mac_of_address, nth_address, plain
from ..naming import layer2_switch, node_switch
from .datagram import PORT
from .expectation import LOCKED


def traced_packets(plan: dict) -> list[dict]:
    """Return packets, Layer2 first: `title`, the `node` to trace on, ovn-trace's `datapath` and `microflow`.

    User-defined networks come before the default one.
    """
    found = {}
    for network, source, target in sorted(_pairs(plan), key=lambda pair: plan["networks"][pair[0]]["id"] == 0):
        found.setdefault(plan["networks"][network]["topology"], _packet(plan, network, source, target))
    return [found[topology] for topology in sorted(found)]


def _pairs(plan: dict) -> list[tuple[str, str, str]]:
    attached: dict[str, list[str]] = {}
    for name, workload in plan["workloads"].items():
        for interface in workload["interfaces"]:
            if interface["role"] != LOCKED:
                attached.setdefault(interface["network"], []).append(name)
    return [
        (network, source, target)
        for network, names in attached.items()
        for source, target in permutations(names, 2)
        if plan["workloads"][source]["node"] != plan["workloads"][target]["node"]
    ]


def _packet(plan: dict, network: str, source: str, target: str) -> dict:
    node = plan["workloads"][source]["node"]
    here, there = (_interface(plan, name, network) for name in (source, target))
    sender, receiver = plain(here["addresses"][0]), plain(there["addresses"][0])
    version = 6 if ":" in sender else 4
    if plan["networks"][network]["topology"] == "Layer2":
        datapath, mac = layer2_switch(network), there["mac"]
    else:
        datapath = node_switch(network, node)
        mac = mac_of_address(nth_address(plan["networks"][network]["host_subnets"][node][0], GATEWAY_OFFSET))
    return {
        "title": f"{source} -> {target} (network {network}, {sender} -> {receiver})",
        "node": node,
        "datapath": datapath,
        "microflow": f'inport == "{here["port"]}" && eth.src == {here["mac"]} && eth.dst == {mac} && '
        f"ip{version}.src == {sender} && ip{version}.dst == {receiver} && ip.ttl == 64 && "
        f"udp && udp.src == {PORT + 1} && udp.dst == {PORT}",
    }


def _interface(plan: dict, workload: str, network: str) -> dict:
    return next(one for one in plan["workloads"][workload]["interfaces"] if one["network"] == network)
