# SPDX-License-Identifier: Apache-2.0
"""EgressIPs on other NICs of a host than the provider bridge's uplink: rules, tables and source NAT.

As in ovn-kubernetes (`node/controllers/egressip`; docs/features/cluster-egress-controls/egress-ip.md, "EgressIP IP is
assigned to a secondary host interface"): the cluster router leads packets of the workloads to the management port with
the mark 1009. A rule of priority 6000 looks each workload up in a table of the NIC, which has the main table's routes
by that NIC and a default route, and nftables translates to the address. What has the mark and no address of a NIC is
dropped, since tables and rules do not change at one moment, and addresses move.

In local gateway mode packets to nodes come by the management port, too. They have the mark 1008, and a rule of priority
5999 excepts them; connection tracking keeps the mark for their replies.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ...common.addressing import family, host_route
from ...common.naming import DEFAULT_NETWORK
from ...types.host_network import HostNetwork, HostRoute, Rule, Sysctl, link_table
from ...types.nftables_ruleset import Chain, Map
from ..common.egress_ips import NODE_ADDRESS_MARK, OTHER_NIC_MARK, held_nics, leaving
from ..common.node_network import NodeNetwork, attachments
from ..gateway.external import DEFAULT_ROUTES

RULE_PRIORITY, EXCEPTED_PRIORITY = 6000, 5999
# Behind a default route that the main table has by the NIC.
_LAST_METRIC = 4278198271
_WORDS = {4: ("ip", "ipv4_addr"), 6: ("ip6", "ipv6_addr")}
# After source NAT.
_AFTER_SOURCE_NAT = "101"


def without_nics(network: HostNetwork, missing: Collection[str]) -> HostNetwork:
    """Return what is desired of a host without what concerns NICs that it does not have."""
    tables = {link_table(nic) for nic in missing}
    return replace(
        network,
        addresses=tuple(one for one in network.addresses if one.device not in missing),
        routes=tuple(one for one in network.routes if one.vrf not in tables),
        rules=tuple(one for one in network.rules if one.vrf not in tables),
        sysctls=tuple(one for one in network.sysctls if not set(one.name.split("/")) & set(missing)),
        link_tables=tuple(one for one in network.link_tables if one not in missing),
    )


@dataclass(frozen=True)
class EgressNics:
    """What a host does for EgressIPs on its other NICs.

    `found` are triples of a workload's address, a NIC and the address that it leaves with. `is_local`: the host is in
    local gateway mode.
    """

    found: tuple[tuple[str, str, str], ...]
    is_local: bool

    def names(self) -> tuple[str, ...]:
        """Return the NICs."""
        return tuple(sorted({nic for _address, nic, _egress in self.found}))

    def _versions(self) -> list[int]:
        return sorted({family(address) for address, _nic, _egress in self.found})

    def rules(self) -> list[Rule]:
        """Return the rules of workloads, and the one before them."""
        rules = [
            Rule(version, "", fwmark=NODE_ADDRESS_MARK, priority=EXCEPTED_PRIORITY)
            for version in self._versions()
            if self.is_local
        ]
        return rules + [
            Rule(family(address), link_table(nic), source=host_route(address), priority=RULE_PRIORITY)
            for address, nic, _egress in self.found
        ]

    def routes(self) -> list[HostRoute]:
        """Return the default route of each NIC's table: all is on the link where the host has no gateway there."""
        pairs = sorted({(nic, family(address)) for address, nic, _egress in self.found})
        return [
            HostRoute(DEFAULT_ROUTES[version], device=nic, vrf=link_table(nic), metric=_LAST_METRIC)
            for nic, version in pairs
        ]

    def forwarding(self) -> set[str]:
        """Return the NICs that forward IPv4, by which replies get to the workloads (`nic_forwarding.py`)."""
        return {nic for address, nic, _egress in self.found if family(address) == 4}

    def sysctls(self) -> list[Sysctl]:
        """Return the setting by which replies of nodes get to the workloads.

        IPv6 has no reverse path filter. A strict one looks up the way back to where a reply comes from; with the mark
        of connections to nodes that is the main table's way, as for the packets themselves, whatever device of the host
        the node is reached by.
        """
        needed = self.is_local and 4 in self._versions()
        return [Sysctl("net/ipv4/conf/all/src_valid_mark", "1")] if needed else []

    def chains(self) -> list[Chain]:
        """Return the chains that need the workloads and their addresses."""
        if not self.found:
            return []
        translate = tuple(
            f"snat {word} to {word} saddr . oifname map @{_map_name(version)}"
            for version, (word, _type) in _WORDS.items()
            if version in self._versions()
        )
        chains = [Chain("egress-ip-snat", translate, hook="postrouting", kind="nat", priority="srcnat")]
        if self.is_local:
            mark = f"{NODE_ADDRESS_MARK:#x}"
            rules = (f"meta mark {mark} ct mark set {mark}", f"meta mark 0x0 ct mark {mark} meta mark set {mark}")
            chains.append(Chain("egress-ip-connmark", rules, hook="prerouting", priority="mangle"))
        return chains

    def maps(self) -> list[Map]:
        """Return the address to translate to, by workload and NIC."""
        found = []
        for version in self._versions():
            kind = _WORDS[version][1]
            elements = tuple(
                f'{address} . "{nic}" : {egress}'
                for address, nic, egress in sorted(self.found)
                if family(address) == version
            )
            found.append(Map(_map_name(version), f"{kind} . ifname", kind, elements))
        return found


def _map_name(version: int) -> str:
    return f"egress-ip-snat-v{version}"


def egress_nics(plan: dict, node: str) -> EgressNics:
    """Return what a node with external connectivity does."""
    if not held_nics(plan, node):
        return EgressNics((), is_local=False)
    default = NodeNetwork(plan, DEFAULT_NETWORK, node, attachments(plan).get(DEFAULT_NETWORK, []))
    found = [(one.address, nic, egress) for one in leaving(default) for egress, nic in one.held_on_nics(node).items()]
    return EgressNics(tuple(found), default.provider.is_local)


def render_filter(default: NodeNetwork) -> Chain:
    """Return the chain that drops what may not leave by another NIC; it is always there, before any such packet is.

    Only packets with an address that the node holds on a NIC may. Others were not translated, or belong to connections
    from before an address moved to another node, which the kernel would go on translating.
    """
    mark = f"meta mark {OTHER_NIC_MARK:#x}"
    held = sorted(held_nics(default.plan, default.node))
    rules = [f"{_WORDS[family(address)][0]} saddr {address} {mark} accept" for address in held]
    return Chain("egress-ip-sec-filter", (*rules, f"{mark} drop"), hook="postrouting", priority=_AFTER_SOURCE_NAT)
