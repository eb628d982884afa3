# SPDX-License-Identifier: Apache-2.0
"""What the host's kernel does for EgressServices of the default network: source NAT, and routing by another table.

As in ovn-kubernetes (`node/controllers/egressservice`): router policies lead the packets of endpoints to the management
port of the host, whose rules give them the address of the load balancer; rules of priority 5000 route what has the
address of an endpoint, or of the Service, by the table that `network` names. Two things differ: what is sent to nodes
is recognised by their addresses, since a userspace datapath does not set the kernel's marks, and connections get ports
apart from those of Services, which the load balancer has at the same address.
"""

from __future__ import annotations

from ...common.addressing import family, host_route
from ...types.host_network import EGRESS_SERVICE_PRIORITY, MAIN_TABLE_NAME, Rule
from ...types.nftables_ruleset import Chain, Map, Set
from ..common.egress_services import addresses_of_nodes, routed_sources, steered
from ..common.node_network import NodeNetwork

_WORDS = {4: ("ip", "ipv4_addr"), 6: ("ip6", "ipv6_addr")}
CHAIN = "egress-services"
_BEFORE_VRFS = 999


def render_egress_service_rules(default: NodeNetwork) -> tuple[list[Chain], list[Set], list[Map]]:
    """Return chains, sets and maps; none where the node is the host of no EgressService of the default network.

    The host that an EgressService moves to has them before that, and the former one after it.
    """
    found = [one for one in steered(default) if one.translated_by(default.node)]
    if not found:
        return [], [], []
    rules, sets, maps = [], [], []
    for version in sorted({family(one.address) for one in found}):
        word, kind = _WORDS[version]
        nodes, sources = f"{CHAIN}-nodes-v{version}", f"{CHAIN}-snat-v{version}"
        near = sorted(one for one in addresses_of_nodes(default) if family(one) == version)
        sets.append(Set(nodes, kind, tuple(near)))
        elements = {f"{one.address} : {one.external}" for one in found if family(one.address) == version}
        maps.append(Map(sources, kind, kind, tuple(sorted(elements))))
        translated = f"snat {word} to {word} saddr map @{sources}"
        rules += [
            f"{word} daddr @{nodes} return",
            f"meta l4proto {{ tcp, udp, sctp }} {translated} : {default.translated_ports}",
            translated,
        ]
    # Before what the local gateway mode translates.
    return [Chain(CHAIN, tuple(rules), hook="postrouting", kind="nat", priority="srcnat")], sets, maps


def egress_service_routing(default: NodeNetwork) -> list[Rule]:
    """Return the policy rules; none without a routing table of an EgressService.

    Nodes are reached by the main table, and so are workloads: what answers them may arrive in a VRF, whose table has no
    route to them, so that rule comes before the kernel's own for VRFs (1000).
    """
    rules = [
        Rule(family(address), "", source=host_route(address), source_port=port, table=table,
             priority=EGRESS_SERVICE_PRIORITY, network=default.name)
        for table, address, port in routed_sources(default)
    ]  # fmt: skip
    if not rules:
        # On most hosts; the addresses of all nodes would be compared with the subnets for each host of a rehearsal.
        return []
    versions = {rule.family for rule in rules}
    main = [(EGRESS_SERVICE_PRIORITY - 1, host_route(one)) for one in addresses_of_nodes(default)]
    main += [(_BEFORE_VRFS, subnet) for subnet in default.network["subnets"]]
    return [
        *rules,
        *(
            Rule(family(to), "", to=to, table=MAIN_TABLE_NAME, priority=priority, network=default.name)
            for priority, to in main
            if family(to) in versions
        ),
    ]
