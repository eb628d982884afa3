# SPDX-License-Identifier: Apache-2.0
"""Keys, decisions and flows of mesh/ as OpenFlow messages, and back.

One bridge carries all networks of the mesh. The VXLAN network identifier has two peers, so it has no place for the
network: within a tunnel a frame has a VLAN tag of its own outside of all that it came with, whose VLAN is the network's
id. The group policy id of VXLAN would cost no bytes, but Open vSwitch's userspace datapath does not send it.
"""

from __future__ import annotations

from ..mesh.forwarding import Key, Tunnel
from .switch import DIALECT, ofproto, parser

# "mesh"; a learned flow has one more bit, the id of its network in the last 16, and above that bit the number of the
# neighbour that it sends to, 0 when that is none or several.
COOKIE = 0x6D65736800000000
LEARNED_COOKIE = COOKIE | 0x10000
_NEIGHBOUR_SHIFT, MOST_NEIGHBOURS = 17, (1 << 15) - 1
_OF_NETWORK, _OF_NEIGHBOUR, _OF_ALL = 0xFFFFFFFF0001FFFF, 0xFFFFFFFFFFFF0000, 0xFFFFFFFF00010000
# The numbers of requests for packets, which their answers have as well: `Switch` numbers other messages below.
_TOTALS = 1 << 31
_LEARNED, _KNOWN_SOURCE, _HEARTBEAT = 100, 10, 200
# 802.1Q; and the shortest frame with a tag.
_TAG, _TAGGED = 0x8100, 18
NO_MAC = "00:00:00:00:00:00"
# Of a frame that never leaves the bridge: locally administered addresses that no interface has, an EtherType for
# experiments (IEEE Std 802).
_HANDED_BACK = bytes.fromhex("026864700004 026864700003 88b5") + b"heddlehb"


def to_controller(match, priority):
    """A flow that hands whole frames to the controller."""
    action = parser.OFPActionOutput(ofproto.OFPP_CONTROLLER, ofproto.OFPCML_NO_BUFFER)
    return _added(COOKIE, priority, match, [action])


def base_flows(vxlan, ports, sources):
    """The flows of a bridge without any traffic: all else, as from unknown hosts, is dropped there.

    `vxlan` is the number of the tunnel port, `ports` those of workloads, `sources` the addresses of other hosts.
    """
    for port in ports:
        yield to_controller(parser.OFPMatch(in_port=port), _KNOWN_SOURCE)
    for source in sources:
        outer = {"in_port": vxlan, _source_field(source): source}
        yield to_controller(parser.OFPMatch(**outer), _KNOWN_SOURCE)
        beat = {**outer, "eth_src": NO_MAC, "eth_dst": NO_MAC}
        yield to_controller(parser.OFPMatch(**beat), _HEARTBEAT)


def cleared():
    """Delete every flow, those of a former controller too."""
    return _deleted(0, 0)


def forgotten(network):
    """Delete the learned flows of a network."""
    return _deleted(LEARNED_COOKIE | network, _OF_NETWORK)


def learned(network, key, numbers, vxlan, decision, neighbour):
    """The flow that repeats a decision; `numbers` are the ports' by name, `neighbour` that of the one it sends to."""
    match = _match(network, key, numbers, vxlan)
    cookie = LEARNED_COOKIE | neighbour << _NEIGHBOUR_SHIFT | network
    return _added(cookie, _LEARNED, match, actions(network, key, numbers, vxlan, decision))


def removed(network, key, numbers, vxlan):
    """Delete one learned flow."""
    return _deleted(LEARNED_COOKIE | network, _OF_NETWORK, _match(network, key, numbers, vxlan), _LEARNED)


def asked_counters(network):
    """Ask for the learned flows of a network with their counters."""
    return parser.OFPFlowStatsRequest(
        DIALECT, 0, ofproto.OFPTT_ALL, ofproto.OFPP_ANY, ofproto.OFPG_ANY, LEARNED_COOKIE | network, _OF_NETWORK
    )


def asked_total(neighbour=None):
    """Ask for the number of packets of all learned flows together, or of those that send to one neighbour."""
    cookie = LEARNED_COOKIE if neighbour is None else LEARNED_COOKIE | neighbour << _NEIGHBOUR_SHIFT
    message = parser.OFPAggregateStatsRequest(
        DIALECT, 0, ofproto.OFPTT_ALL, ofproto.OFPP_ANY, ofproto.OFPG_ANY, cookie,
        _OF_ALL if neighbour is None else _OF_NEIGHBOUR, parser.OFPMatch(),
    )  # fmt: skip
    message.set_xid(_TOTALS | (neighbour or 0))
    return message


def neighbour_of(total):
    """The number of the neighbour that an answer to `asked_total` is about, 0 when it is about all flows."""
    return total.xid & ~_TOTALS


def sent(network, key, numbers, vxlan, decision, frame):
    """The message that sends one frame as decided."""
    port = vxlan if key.tunnel else numbers[key.port]
    chosen = actions(network, key, numbers, vxlan, decision)
    return parser.OFPPacketOut(DIALECT, ofproto.OFP_NO_BUFFER, port, chosen, frame)


def injected(network, numbers, vxlan, decision, frame):
    """The message that sends a frame without the mesh's tag, which the bridge has not seen yet, as decided."""
    chosen = actions(network, Key(None, None, "", ""), numbers, vxlan, decision)
    return parser.OFPPacketOut(DIALECT, ofproto.OFP_NO_BUFFER, ofproto.OFPP_CONTROLLER, chosen, frame)


def delivered(port, frame):
    """The message that sends a frame of the mesh itself to the port of a workload."""
    chosen = [parser.OFPActionOutput(port)]
    return parser.OFPPacketOut(DIALECT, ofproto.OFP_NO_BUFFER, ofproto.OFPP_CONTROLLER, chosen, frame)


def sent_through(tunnel, vxlan, frame):
    """The message that sends a frame of the mesh itself through a tunnel."""
    chosen = [*_set_tunnel(tunnel), parser.OFPActionOutput(vxlan)]
    return parser.OFPPacketOut(DIALECT, ofproto.OFP_NO_BUFFER, ofproto.OFPP_CONTROLLER, chosen, frame)


def handed_back(number):
    """The message that has the bridge hand a frame back, as it does with one that no flow matches."""
    chosen = [parser.OFPActionOutput(ofproto.OFPP_CONTROLLER, ofproto.OFPCML_NO_BUFFER)]
    frame = (_HANDED_BACK + number.to_bytes(8, "big")).ljust(60, b"\0")
    return parser.OFPPacketOut(DIALECT, ofproto.OFP_NO_BUFFER, ofproto.OFPP_CONTROLLER, chosen, frame)


def number_handed_back(match, frame):
    """The number of a frame that the bridge hands back; None for any other one."""
    if match.get("in_port") != ofproto.OFPP_CONTROLLER or not frame.startswith(_HANDED_BACK):
        return None
    return int.from_bytes(frame[len(_HANDED_BACK) :][:8], "big")


def actions(network, key, numbers, vxlan, decision):
    """The actions of a decision. OpenFlow outputs to the port of ingress only as IN_PORT, which a relay needs."""
    local = [parser.OFPActionOutput(numbers[name]) for name in decision.ports if name in numbers]
    back = ofproto.OFPP_IN_PORT if key.tunnel else vxlan
    relayed = []
    for tunnel in decision.tunnels:
        relayed += [*_set_tunnel(tunnel), parser.OFPActionOutput(back)]
    if key.tunnel:
        return [*relayed, *([parser.OFPActionPopVlan(), *local] if local else [])]
    tag = [parser.OFPActionPushVlan(_TAG), parser.OFPActionSetField(vlan_vid=ofproto.OFPVID_PRESENT | network)]
    return [*local, *([*tag, *relayed] if relayed else [])]


def network_of(frame):
    """The network of a frame in a tunnel, 0 for one without the mesh's tag."""
    if len(frame) < _TAGGED or int.from_bytes(frame[12:14], "big") != _TAG:
        return 0
    return int.from_bytes(frame[14:16], "big") & ofproto.OFPVID_PRESENT - 1


def untagged(frame):
    """A frame of a tunnel without the mesh's tag."""
    return frame[:12] + frame[16:]


def key_of(match, macs, names):
    """The key of a received frame; None without what one needs. `names` are the ports of workloads by number."""
    source = match.get("tun_ipv4_src") or match.get("tun_ipv6_src")
    if source:
        destination = match.get("tun_ipv4_dst") or match.get("tun_ipv6_dst")
        return Key(None, Tunnel(match.get("tunnel_id", 0), source, destination), *macs)
    port = names.get(match.get("in_port"))
    return Key(port, None, *macs) if port else None


def _match(network, key, numbers, vxlan):
    fields = {"eth_src": key.source, "eth_dst": key.destination}
    if key.tunnel is None:
        return parser.OFPMatch(in_port=numbers[key.port], **fields)
    tunnel = key.tunnel
    fields |= {"tunnel_id": tunnel.vni, "vlan_vid": ofproto.OFPVID_PRESENT | network}
    fields[_source_field(tunnel.source)] = tunnel.source
    fields[_destination_field(tunnel.destination)] = tunnel.destination
    return parser.OFPMatch(in_port=vxlan, **fields)


def _set_tunnel(tunnel):
    # The outer source is the port's own (`local_ip`).
    outer = {_destination_field(tunnel.destination): tunnel.destination}
    return [
        parser.OFPActionSetField(tunnel_id=tunnel.vni),
        parser.OFPActionSetField(**outer),
    ]


def _source_field(address):
    return "tun_ipv6_src" if ":" in address else "tun_ipv4_src"


def _destination_field(address):
    return "tun_ipv6_dst" if ":" in address else "tun_ipv4_dst"


def _added(cookie, priority, match, chosen):
    apply = [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, chosen)]
    return parser.OFPFlowMod(DIALECT, cookie=cookie, priority=priority, match=match, instructions=apply)


def _deleted(cookie, mask, match=None, priority=None):
    return parser.OFPFlowMod(
        DIALECT,
        cookie=cookie,
        cookie_mask=mask,
        table_id=ofproto.OFPTT_ALL,
        command=ofproto.OFPFC_DELETE if match is None else ofproto.OFPFC_DELETE_STRICT,
        priority=priority or 0,
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
        match=match,
    )
