# SPDX-License-Identifier: Apache-2.0
"""Other NICs of a host than the provider bridge's uplink: what the host forwards there, and what it does not.

Node ports are at all addresses of a node, as in Kubernetes, and clients may be on the network of any NIC. Their packets
are translated by the host's kernel (`service_rules.py`) and forwarded to the provider bridge or a management port. With
IPv4 that needs forwarding on the NIC (IPv6 has no such setting before Linux 6.17, and is forwarded by all), as replies
to EgressIPs on a NIC do (`egress_nics.py`). A host does not become a router between its networks by it: on a NIC that
forwards for these reasons, only what is translated is forwarded, and what belongs to connections that came from
elsewhere.

A NIC whose own setting was 1 before stays as it is, without these rules: `routing` are NICs that others have made
forward.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...common.addressing import family, plain
from ...types.host_network import Sysctl
from ...types.nftables_ruleset import Chain
from ..common.entrances import LOAD_BALANCER, Entrance, entrances, own_addresses
from ..common.node_network import NodeNetwork
from .egress_nics import egress_nics
from .vswitch import UNDERLAY_BRIDGE

_WORDS = {4: "ip", 6: "ip6"}


def other_nics(view: NodeNetwork) -> list[str]:
    """Return the node's NICs with addresses besides the provider bridge."""
    node = view.plan["nodes"][view.node]
    found = set(node.get("other_addresses", {}))
    # A userspace datapath reads the NIC of the tunnels, whose addresses are on a bridge then.
    if view.provider.userspace_interfaces and not set(map(plain, node["encap_ips"])) <= own_addresses(view):
        found.add(UNDERLAY_BRIDGE)
    return sorted(found)


def entry_nics(views: list[NodeNetwork]) -> list[str]:
    """Return the NICs that packets to Services come in by; none without Services from beyond their network."""
    return other_nics(views[0]) if any(entrances(view) for view in views) else []


def forwarding_nics(views: list[NodeNetwork]) -> list[str]:
    """Return the NICs that forward IPv4 because of Heddle: for Services, and for EgressIPs."""
    node = views[0].plan["nodes"][views[0].node]
    addresses = {**node.get("other_addresses", {}), UNDERLAY_BRIDGE: node["encap_ips"]}
    with_ipv4 = {nic for nic in entry_nics(views) if any(family(one) == 4 for one in addresses[nic])}
    return sorted(with_ipv4 | egress_nics(views[0].plan, views[0].node).forwarding())


def nic_sysctls(views: list[NodeNetwork]) -> list[Sysctl]:
    """Return the settings by which NICs forward IPv4."""
    return [Sysctl(forwarding_of(nic), "1") for nic in forwarding_nics(views)]


def forwarding_of(nic: str) -> str:
    """Return the name of the setting by which a NIC forwards IPv4."""
    return f"net/ipv4/conf/{nic}/forwarding"


def render_nic_chains(views: list[NodeNetwork], routing: Collection[str]) -> list[Chain]:
    """Return the chains about NICs; none on a host without other NICs, or where none forwards."""
    nics = entry_nics(views)
    found = [one for view in views for one in entrances(view)] if nics else []
    ranges = _source_ranges(matching("iifname", nics), found) if nics else ()
    guarded = [nic for nic in forwarding_nics(views) if nic not in routing]
    return [
        *([Chain("nic-forwarding", _guard(views[0].provider.bridge, guarded), hook="forward")] if guarded else []),
        # Before translation, which has the kernel's priority for it.
        *([Chain("service-sources", ranges, hook="prerouting", priority="mangle")] if ranges else []),
    ]


def matching(word: str, names: Iterable[str]) -> str:
    """Return a match on interfaces."""
    return f"{word} {{ " + ", ".join(f'"{name}"' for name in sorted(names)) + " }"


def _guard(bridge: str, nics: list[str]) -> tuple[str, ...]:
    """What may be forwarded from NICs, and to them from the provider network, which forwards as well."""
    places = matching("iifname", nics), f'iifname "{bridge}" {matching("oifname", nics)}'
    kept = ("ct status dnat accept", "ct direction reply accept", "meta nfproto ipv4 drop")
    return tuple(f"{place} {rule}" for place in places for rule in kept)


def _source_ranges(place: str, found: list[Entrance]) -> tuple[str, ...]:
    """Who may send to addresses of load balancers, as the provider bridge has it for its uplink."""
    rules: list[str] = []
    for one in found:
        if one.kind == LOAD_BALANCER and one.sources:
            word = _WORDS[one.version]
            target = f"{place} {word} daddr {one.address} {one.protocol.lower()} dport {one.number}"
            rules += [f"{target} {word} saddr {source} accept" for source in one.sources]
            rules.append(f"{target} drop")
    return tuple(rules)
