# SPDX-License-Identifier: Apache-2.0
"""OpenFlow rules of the provider bridge for what leaves with the address of an EgressIP or EgressService.

Gateway routers of user-defined networks mark such packets, and the bridge translates by the mark. That of the default
network translates itself. While an address moves (`handover.py`), both the former and the new host do all of that, and
these flows decide whether anything leaves.
"""

from __future__ import annotations

from ...common.addressing import family
from ...types.openflow_flow import Flow
from ..common.egress_ips import NODE_ADDRESS_MARK, held_marks, withheld_marks
from ..common.egress_services import held_service_marks, withheld_services
from ..common.node_network import NodeNetwork
from .bridge import IP, SOURCE, ZONE, Bridge, connection_mark
from .neighbour_flows import ADVERTISEMENT

# What the default network's gateway router sends has its address already, and may have the mark 1008 as well.
_MARKED, _WITHHELD, _WITHHELD_TRANSLATED = 105, 106, 104


def render_egress_flows(plan: dict, node: str) -> list[Flow]:
    """Return these flows of a node alone; they are among those of `render_bridge_flows`."""
    if not plan.get("egress_ips") and not plan.get("egress_services"):
        return []
    bridge = Bridge(plan, node)
    for version in (4, 6) if bridge.views else ():
        if bridge.provider.address(version) and bridge.subnets("masquerade_subnets", version):
            for view in bridge.views:
                if version in view.network["families"]:
                    add_egress_flows(bridge, view, version)
    return bridge.flows


def add_egress_flows(bridge: Bridge, view: NodeNetwork, version: int) -> None:
    """Add what a gateway router marked leaves with an egress address, or with the node's all the same.

    A load balancer's address is that of Services, too, so connections get ports apart from those. Nothing leaves with
    an address that moves.
    """
    if not view.network.get("egress_ips") and not view.egress_services:
        return
    sent = f"in_port={{{bridge.patch(view)}}},dl_src={bridge.mac},{IP[version]}"
    chosen = [(NODE_ADDRESS_MARK, bridge.provider.address(version))]
    chosen += [] if view.is_default else [one for one in held_marks(view) if family(one[1]) == version]
    chosen += [
        (mark, _with_ports(view, source)) for mark, source in held_service_marks(view) if family(source) == version
    ]
    withheld = [one for one in withheld_marks(view) if family(one[1]) == version]
    services = [one for one in withheld_services(view) if family(one[1]) == version]
    if view.is_default:
        for _mark, address in withheld:
            _withhold_translated(bridge, view, sent, address)
        for _mark, address in services:
            bridge.add(
                0, _WITHHELD_TRANSLATED, f"in_port=LOCAL,{IP[version]},{SOURCE[version]}={address}", "drop", view.name
            )
    withheld += [(mark, _with_ports(view, source)) for mark, source in services]
    # An EgressIP has one mark; another one of its addresses may be here.
    known, hidden = dict(chosen), {} if view.is_default else dict(reversed(withheld))
    for mark, source in [*chosen, *(one for one in hidden.items() if one[0] not in known)]:
        commit = f"ct(commit,zone={ZONE},nat(src={source}),exec(set_field:{connection_mark(view):#x}->ct_mark))"
        bridge.add(0, _MARKED, f"{sent},pkt_mark={mark:#x}", f"{commit},{bridge.to_uplink}", view.name)
        # Only this flow comes and goes with the steps of a move, since one that drops is written at once.
        if mark not in known:
            bridge.add(0, _WITHHELD, f"{sent},pkt_mark={mark:#x}", "drop", view.name)


def _with_ports(view: NodeNetwork, source: str) -> str:
    return f"{f'[{source}]' if family(source) == 6 else source}:{view.translated_ports}"


def _withhold_translated(bridge: Bridge, view: NodeNetwork, sent: str, address: str) -> None:
    """Drop what the default network's gateway router translated, and its answers and announcements of the address."""
    version = family(address)
    bridge.add(0, _WITHHELD_TRANSLATED, f"{sent},{SOURCE[version]}={address}", "drop", view.name)
    port = f"in_port={{{bridge.patch(view)}}}"
    said = (
        f"arp,arp_spa={address}" if version == 4 else f"icmp6,icmp_type={ADVERTISEMENT},icmp_code=0,nd_target={address}"
    )
    bridge.add(0, _WITHHELD_TRANSLATED, f"{port},{said}", "drop", view.name)
