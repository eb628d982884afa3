# SPDX-License-Identifier: Apache-2.0
"""ARP and neighbour discovery on the provider bridge: which of the gateway routers receives which packet.

All gateway routers of a node have the node's address and MAC, so requests for it are answered by one of them, and what
others send about themselves has to reach all. With many networks the latter is expensive: each router takes more than
50 lookups, and Open vSwitch drops a packet after 4096. Therefore

- routers are served in groups, and the packet is looked up anew for each group (tables from 20 on), and
- what a neighbour broadcasts reaches all routers only when it is new: table 12 holds the neighbours, address and MAC,
  whose broadcast has reached them within the last `KNOWN_SECONDS`. Open vSwitch adds these flows itself (`learn`,
  ovs-actions(7)); table 13 continues by what table 12 found. A neighbour with another MAC is new.
"""

from __future__ import annotations

from ...common.addressing import family, plain
from ...types.openflow_flow import ANNOUNCEMENT_COOKIE, LEARNED_COOKIE
from .bridge import Bridge

SOLICITATION, ADVERTISEMENT = 135, 136
BROADCAST, ALL_NODES = "ff:ff:ff:ff:ff:ff", "33:33:00:00:00:01"
ARP, IPV6 = "0x0806", "0x86dd"
KNOWN_TABLE, NEW_TABLE = 12, 13
GROUP_SIZE, GROUP_TABLES = 50, 20
# How long a broadcast of one address and MAC counts as known, and how many of them; beyond that, all are new.
KNOWN_SECONDS, KNOWN_LIMIT = 10, 1000
_KNOWN = "reg1=0x1/0x1"


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
        _broadcasts(bridge, default)
        replies = ",".join([default, "NORMAL", *other_routers(bridge, ARP)])
        bridge.add(0, 11, f"arp,dl_dst={bridge.mac}{bridge.in_vlan}", replies)
    # Neither IP (priority 50) nor ARP (11), so nothing that an OVN router would do anything with. ovn-kubernetes
    # gives it to all gateway routers; here that would be 56 lookups for each of them, and every one would drop it.
    bridge.add(0, 10, f"dl_dst={bridge.mac}{bridge.in_vlan}", f"{default},NORMAL")
    for view in bridge.views:
        port = f"in_port={{{bridge.patch(view)}}}"
        bridge.add(0, 10, f"{port},dl_src={bridge.mac}", "NORMAL", view.name)
        bridge.add(0, 9, port, "drop", view.name)
    _announcements(bridge)
    bridge.add(0, 0, "", "NORMAL")


def _groups(bridge: Bridge) -> list[list[str]]:
    outputs = [f"output:{{{bridge.patch(view)}}}" for view in bridge.views if not view.is_default]
    return [outputs[start : start + GROUP_SIZE] for start in range(0, len(outputs), GROUP_SIZE)]


def _broadcasts(bridge: Bridge, default: str) -> None:
    """What neighbours broadcast: to the default network's router always, to the others when it is new."""
    actions = f"resubmit(,{KNOWN_TABLE}),{default},NORMAL,resubmit(,{NEW_TABLE})"
    advertisement = f"icmp6,icmp_type={ADVERTISEMENT},icmp_code=0"
    for match in (f"arp,dl_dst={BROADCAST}", f"{advertisement},dl_dst={ALL_NODES}"):
        bridge.add(0, 11, f"in_port={bridge.uplink}{bridge.in_vlan},{match}", actions)
    arp_fields = f"eth_type={ARP},NXM_OF_ARP_SPA[],NXM_NX_ARP_SHA[]"
    nd_fields = f"eth_type={IPV6},nw_proto=58,icmpv6_type={ADVERTISEMENT},NXM_NX_ND_TARGET[],NXM_NX_ND_TLL[]"
    bridge.add(NEW_TABLE, 10, _KNOWN, "drop")
    for match, fields, protocol in (("arp", arp_fields, ARP), (advertisement, nd_fields, IPV6)):
        learn = (
            f"learn(table={KNOWN_TABLE},hard_timeout={KNOWN_SECONDS},cookie={LEARNED_COOKIE:#x},delete_learned,"
            f"limit={KNOWN_LIMIT},"
            f"{fields},load:0x1->NXM_NX_REG1[0])"
        )
        bridge.add(NEW_TABLE, 5, f"{match}{bridge.in_vlan}", ",".join([learn, *other_routers(bridge, protocol)]))


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
