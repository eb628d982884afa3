# SPDX-License-Identifier: Apache-2.0
"""What appears on the provider network: no address of a tenant's network, whatever workloads send."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.egress_addresses import EgressAddresses
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.firewall_permissions import (
    FirewallPermissions,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.policy_permissions import PolicyPermissions
from tests.lab.remote_program import RemoteProgram
from tests.lab.test_gateways import external

PORT = 7009
INTERFACE = "eth2"


def internal_subnets(plan: dict) -> list:
    """Return the subnets that exist inside of nodes and tunnels only; those of Localnet are on physical networks."""
    subnets = [*plan["settings"]["masquerade_subnets"], *plan["settings"]["transit_subnets"]]
    for network in plan["networks"].values():
        if network["topology"] != "Localnet":
            subnets += [*network["subnets"], *network["join_subnets"]]
    return [ip_network(subnet) for subnet in dict.fromkeys(subnets)]


def senders(plan: dict, number: int) -> dict[str, tuple[str, str]]:
    """Return node and network namespace of a workload of each network and node, of those that may send there."""
    found, firewalls, policies = {}, FirewallPermissions(plan), PolicyPermissions(plan)
    for name, workload in plan["workloads"].items():
        for interface in workload["interfaces"]:
            families = {ip_address(address.partition("/")[0]).version for address in interface["addresses"]}
            if workload["kind"] == "netns" and interface["role"] == "primary" and number in families:
                key = (interface["network"], workload["node"])
                ends = ("", external(number))
                refused = firewalls.refusal(key[0], name, ends[1], "UDP", PORT)
                if refused or policies.refusal(key[0], name, "", ends, "UDP", PORT):
                    continue
                found.setdefault(key, (name, workload["node"], f"{workload['namespace']}_{workload['name']}"))
    return {name: (node, namespace) for name, node, namespace in found.values()}


def is_internal(address: str, internal: list) -> bool:
    return any(ip_address(address) in subnet for subnet in internal)


def own_addresses(plan: dict, name: str, node: str, number: int) -> list[str]:
    """Return the addresses of which a workload leaves with one: of its EgressIP, or that of its node."""
    egress = EgressAddresses(plan).of(name, number)
    if egress:
        return list(egress)
    found = (address.partition("/")[0] for address in plan["nodes"][node]["gateway"]["addresses"])
    return [next(address for address in found if ip_address(address).version == number)]


@pytest.mark.parametrize("number", [4, 6], ids=["IPv4", "IPv6"])
def test_no_tenant_address_on_the_provider_network(lab, number):
    """Connection tracking does not translate segments without a connection, so the provider bridge must drop them."""
    plan = lab.plan()
    internal, chosen = internal_subnets(plan), senders(plan, number)
    assert {node for node, _namespace in chosen.values()} == set(plan["nodes"])
    watched = RemoteProgram(lab, "external", "provider_frames.py", "watch", INTERFACE)
    seen = []
    try:
        assert watched.line() == "ready"
        for name, (node, namespace) in chosen.items():
            words = ("send", external(number), PORT, name)
            one = RemoteProgram(lab, node, "provider_frames.py", *words, namespace=namespace)
            assert is_internal(one.line(), internal), name
            # The datagram is sent last: what was sent before it has arrived when it has.
            own = own_addresses(plan, name, node, number)
            while seen[-1:] not in [[["ip", address, external(number), PORT, name]] for address in own]:
                seen.append(watched.line())
            one.end()
            leaked = [frame for frame in seen if is_internal(frame[1], internal) or is_internal(frame[2], internal)]
            assert not leaked, f"{name} on {node}"
            seen.clear()
    finally:
        watched.end()
