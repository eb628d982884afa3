# SPDX-License-Identifier: Apache-2.0
"""ARP and neighbour discovery on the provider bridge: which of the gateway routers receives which packet.

All gateway routers of a node have the node's address and MAC, so requests for it are answered by one of them, and what
others send about themselves has to reach all. With many networks the latter is expensive: each router takes more than
50 lookups, and Open vSwitch drops a packet after 4096. Therefore

- routers are served in groups, and the packet is looked up anew for each group (tables from 20 on),
- what a neighbour says about itself reaches all routers only when it is new: table 12 holds the neighbours, address and
  MAC, of which they have heard within the last `KNOWN_SECONDS`. Open vSwitch adds these flows itself (`learn`,
  ovs-actions(7)); table 13 continues by what table 12 found. A neighbour with another MAC is new, and
- a router that asks for such a neighbour is answered by the bridge: table 14 holds the MACs, a little longer than table
  12, and table 15 turns a request into its answer. So of many routers that resolve the next hop one asks the neighbour.

The userspace datapath looks a packet up anew six times at most. Routers of groups beyond that are answered by the
bridge when they ask again. The kernel's datapath cannot make a neighbour advertisement (ovs-fields(7),
`nd_options_type`), so there each of these from a neighbour reaches all routers; more than five groups were not tried.
"""

from __future__ import annotations

from ...common.addressing import family, plain
from ...types.openflow_flow import ANNOUNCEMENT_COOKIE, LEARNED_COOKIE
from .bridge import Bridge

SOLICITATION, ADVERTISEMENT = 135, 136
BROADCAST, ALL_NODES = "ff:ff:ff:ff:ff:ff", "33:33:00:00:00:01"
ARP, IPV6 = "0x0806", "0x86dd"
KNOWN_TABLE, NEW_TABLE, MACS_TABLE, ASKED_TABLE, ADVERTISED_TABLE = 12, 13, 14, 15, 16
GROUP_SIZE, GROUP_TABLES = 50, 20
# How long a broadcast of one address and MAC counts as known, and how many of them; beyond that, all are new.
KNOWN_SECONDS, KNOWN_LIMIT = 10, 1000
# How much longer the bridge has answers. A request is sent to the neighbour only when there is none, and by then the
# neighbour is no longer known, so that its reply reaches all routers.
LONGER_SECONDS = 2
_KNOWN, _HAS_MAC = "reg1=0x1/0x1", "reg1=0x2/0x2"
# Where table 14 puts the MAC.
_MAC = "OXM_OF_PKT_REG2[0..47]"


def other_routers(bridge: Bridge, protocol: str) -> list[str]:
    """Return actions that output a packet of an Ethernet type to all gateway routers but the default network's.

    They must come last. The lookup for each group is triggered by an MPLS label that is pushed and popped again; the
    packet itself never has it.
    """
    first, *more = _groups(bridge) or [[]]
    # The kernel's datapath rejects a label on a tagged frame.
    anew = f"{bridge.untagged}push_mpls:0x8847,pop_mpls:{protocol},{bridge.tagged}".rstrip(",")
    return [*first, *(f"{anew},resubmit(,{GROUP_TABLES + number})" for number in range(len(more)))]


def render_neighbours(bridge: Bridge) -> None:
    """Add the flows of ARP and neighbour discovery, and of all else that is addressed to the routers' MAC."""
    for number, group in enumerate(_groups(bridge)[1:]):
        bridge.add(GROUP_TABLES + number, 0, "", ",".join(group))
    default = f"output:{{{bridge.patch(bridge.default)}}}"
    for address in map(plain, bridge.provider.addresses):
        asked = (
            f"arp,arp_op=1,arp_tpa={address}"
            if family(address) == 4
            else f"icmp6,icmp_type={SOLICITATION},icmp_code=0,nd_target={address}"
        )
        bridge.add(0, 12, f"{asked}{bridge.in_vlan}", f"{default},NORMAL")
    if len(bridge.views) > 1:
        _from_neighbours(bridge, default)
        _answers(bridge)
    # Neither IP (priority 50) nor ARP (11), so nothing that an OVN router would do anything with. ovn-kubernetes
    # gives it to all gateway routers; here that would be 56 lookups for each of them, and every one would drop it.
    bridge.add(0, 10, f"dl_dst={bridge.mac}{bridge.in_vlan}", f"{default},NORMAL")
    for view in bridge.views:
        port = f"in_port={{{bridge.patch(view)}}}"
        own = "NORMAL" if view.is_default else f"resubmit(,{MACS_TABLE}),resubmit(,{ASKED_TABLE})"
        bridge.add(0, 10, f"{port},dl_src={bridge.mac}", own, view.name)
        bridge.add(0, 9, port, "drop", view.name)
    _announcements(bridge)
    bridge.add(0, 0, "", "NORMAL")


def _groups(bridge: Bridge) -> list[list[str]]:
    outputs = [f"output:{{{bridge.patch(view)}}}" for view in bridge.views if not view.is_default]
    return [outputs[start : start + GROUP_SIZE] for start in range(0, len(outputs), GROUP_SIZE)]


def has_answers(bridge: Bridge, protocol: str) -> bool:
    """Return whether the bridge can answer for neighbours, by the Ethernet type of the question."""
    return protocol == ARP or bool(bridge.provider.userspace_interfaces)


def when_new(bridge: Bridge, first: str, protocol: str) -> str:
    """Return actions for what a neighbour says to the node's MAC: `first` always, the other routers if it is new.

    Where the bridge cannot answer for the neighbour, they always get it: one of them may have asked.
    """
    if len(bridge.views) == 1 or not has_answers(bridge, protocol):
        return ",".join([first, *other_routers(bridge, protocol)])
    return _if_new(first)


def _if_new(first: str) -> str:
    return f"resubmit(,{KNOWN_TABLE}),{first},resubmit(,{NEW_TABLE})"


def _from_neighbours(bridge: Bridge, default: str) -> None:
    """What neighbours say about themselves: to the default network's router always, to the others when it is new."""
    first = f"{default},NORMAL"
    advertisement = f"icmp6,icmp_type={ADVERTISEMENT},icmp_code=0"
    # Broadcasts can be left out where the bridge has no answers, too: routers that know the neighbour have its MAC.
    for match in (f"arp,dl_dst={BROADCAST}", f"{advertisement},dl_dst={ALL_NODES}"):
        bridge.add(0, 11, f"in_port={bridge.uplink}{bridge.in_vlan},{match}", _if_new(first))
    bridge.add(0, 11, f"arp,dl_dst={bridge.mac}{bridge.in_vlan}", when_new(bridge, first, ARP))
    bridge.add(NEW_TABLE, 10, _KNOWN, "drop")
    nd_type = f"eth_type={IPV6},nw_proto=58,icmpv6_type"
    _learn(
        bridge, "arp", ARP, f"eth_type={ARP},NXM_OF_ARP_SPA[],NXM_NX_ARP_SHA[]",
        f"eth_type={ARP},NXM_OF_ARP_TPA[]=NXM_OF_ARP_SPA[],load:NXM_NX_ARP_SHA[]->{_MAC}",
    )  # fmt: skip
    _learn(
        bridge, advertisement, IPV6, f"{nd_type}={ADVERTISEMENT},NXM_NX_ND_TARGET[],NXM_NX_ND_TLL[]",
        f"{nd_type}={SOLICITATION},NXM_NX_ND_TARGET[],load:NXM_NX_ND_TLL[]->{_MAC}",
    )  # fmt: skip
    if has_answers(bridge, IPV6):
        # An advertisement without a MAC (RFC 4861, 4.4) says nothing that could be answered.
        without = f"{advertisement},nd_tll=00:00:00:00:00:00{bridge.in_vlan}"
        bridge.add(NEW_TABLE, 6, without, ",".join(other_routers(bridge, IPV6)))


def _learn(bridge: Bridge, match: str, protocol: str, known: str, answer: str) -> None:
    """Add the flow for a new neighbour: what it said is known from now on, and can be answered."""
    kept = f"cookie={LEARNED_COOKIE:#x},delete_learned,limit={KNOWN_LIMIT}"
    actions = [f"learn(table={KNOWN_TABLE},hard_timeout={KNOWN_SECONDS},{kept},{known},load:0x1->NXM_NX_REG1[0])"]
    if has_answers(bridge, protocol):
        seconds = KNOWN_SECONDS + LONGER_SECONDS
        actions.append(f"learn(table={MACS_TABLE},hard_timeout={seconds},{kept},{answer},load:0x1->NXM_NX_REG1[1])")
    bridge.add(NEW_TABLE, 5, f"{match}{bridge.in_vlan}", ",".join([*actions, *other_routers(bridge, protocol)]))


def _answers(bridge: Bridge) -> None:
    """Questions of user-defined networks' routers: to the neighbours, or answered where their MAC is known.

    The default network's router always asks the neighbours, and announces the node's address, which looks like a
    question.
    """
    bridge.add(ASKED_TABLE, 0, "", "NORMAL")
    to_asker = (
        "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],move:OXM_OF_PKT_REG2[32..47]->NXM_OF_ETH_SRC[32..47],"
        "move:OXM_OF_PKT_REG2[0..31]->NXM_OF_ETH_SRC[0..31]"
    )
    reply = (
        f"{to_asker},set_field:2->arp_op,move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],"
        "move:NXM_OF_ETH_SRC[]->NXM_NX_ARP_SHA[],move:NXM_OF_ARP_SPA[]->NXM_NX_REG0[],"
        "move:NXM_OF_ARP_TPA[]->NXM_OF_ARP_SPA[],move:NXM_NX_REG0[]->NXM_OF_ARP_TPA[],IN_PORT"
    )
    bridge.add(ASKED_TABLE, 10, f"{_HAS_MAC},arp,arp_op=1", reply)
    if not has_answers(bridge, IPV6):
        return
    # RFC 4861, 4.4: solicited, and to override what the router knows. OpenFlow sets fields of an advertisement only
    # where the match requires one, so in a further table.
    advertisement = (
        f"{to_asker},move:NXM_NX_IPV6_SRC[]->NXM_NX_IPV6_DST[],move:NXM_NX_ND_TARGET[]->NXM_NX_IPV6_SRC[],"
        f"set_field:{ADVERTISEMENT}->icmpv6_type,set_field:2->nd_options_type,set_field:0x60000000->nd_reserved,"
        f"resubmit(,{ADVERTISED_TABLE})"
    )
    bridge.add(ASKED_TABLE, 10, f"{_HAS_MAC},icmp6,icmp_type={SOLICITATION},icmp_code=0", advertisement)
    bridge.add(
        ADVERTISED_TABLE, 0, f"icmp6,icmp_type={ADVERTISEMENT},icmp_code=0",
        "move:NXM_OF_ETH_SRC[]->NXM_NX_ND_TLL[],IN_PORT",
    )  # fmt: skip


def _announcements(bridge: Bridge) -> None:
    """Drop announcements of addresses that all gateway routers have alike, except for host and default network.

    OVN announces every IPv4 address of a gateway router on a switch with a localnet port, and 25.03 has no option
    to disable that; each announcement would go to all gateway routers of all nodes. The default network's router
    announces the node's address for all. These flows match the MAC that all routers have and not their ports: a
    new network's router announces as soon as its patch port exists, before the flows of that port are written.
    """
    sender = f"arp,dl_src={bridge.mac}"
    for subnet in bridge.subnets("masquerade_subnets", 4):
        bridge.add(0, 13, f"{sender},arp_spa={subnet}", "drop", cookie=ANNOUNCEMENT_COOKIE)
    for address in (plain(item) for item in bridge.provider.addresses if family(item) == 4):
        announced = f"{sender},arp_op=1,arp_tpa={address}"
        bridge.add(0, 13, announced, "drop", cookie=ANNOUNCEMENT_COOKIE)
        for announcer in ("LOCAL", f"{{{bridge.patch(bridge.default)}}}"):
            bridge.add(0, 14, f"in_port={announcer},{announced}", "NORMAL", cookie=ANNOUNCEMENT_COOKIE)
