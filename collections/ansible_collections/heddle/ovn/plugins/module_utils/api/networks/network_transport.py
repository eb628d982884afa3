# SPDX-License-Identifier: Apache-2.0
"""Transport fields of a cluster-scoped network: transport, noOverlay, evpn, uplinks (rules of the current API)."""

from __future__ import annotations

import re

from ..addresses import parse_address
from ..node import Fields, Node
from ..problem import show
from .network import LAYER2, LAYER3, PRIMARY, NetworkSpec

_NO_OVERLAY = "NoOverlay"
_EVPN = "EVPN"
_LARGEST_VNI = 2**24 - 1
_LONGEST_ROUTE_TARGET = 21
_LARGEST_2_BYTES = 2**16 - 1
_LARGEST_4_BYTES = 2**32 - 1
_NUMBER = re.compile("[0-9]+")
_UPLINK = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def read_transport(fields: Fields | None) -> dict:
    """The normal form of transport, noOverlay and evpn; each None when not written."""
    get = fields.get if fields else (lambda name: None)
    transport, no_overlay, evpn = get("transport"), get("noOverlay"), get("evpn")
    return {
        "transport": transport.choice((_NO_OVERLAY, _EVPN)) if transport else None,
        "noOverlay": _read_no_overlay(no_overlay) if no_overlay else None,
        "evpn": _read_evpn(evpn) if evpn else None,
    }


def check_transport(fields: Fields, topology: str, network: NetworkSpec | None) -> None:
    """The rules between the transport, its blocks and the network that it carries."""
    transport, no_overlay, evpn = fields.get("transport"), fields.get("noOverlay"), fields.get("evpn")
    name = transport.value if transport else None
    if transport and name not in (_NO_OVERLAY, _EVPN):
        return
    # Without its block or with a wrong role the network is rejected in any case.
    primary = network is not None and network.role == PRIMARY
    if name == _NO_OVERLAY and not (topology == LAYER3 and primary):
        transport.refuse("transport 'NoOverlay' is only supported for Layer3 primary networks", "remove transport")
    if name == _NO_OVERLAY:
        fields.require(
            "noOverlay",
            "write its outboundSNAT and routing",
            "spec.noOverlay is required when type transport is 'NoOverlay'",
        )
    elif no_overlay:
        no_overlay.refuse("spec.noOverlay is forbidden when transport type is not 'NoOverlay'", "remove it")
    if name != _EVPN:
        if evpn:
            evpn.refuse("spec.evpn field is forbidden when transport is not 'EVPN'", "remove it")
        return
    if not (topology in (LAYER2, LAYER3) and primary):
        transport.refuse("transport 'EVPN' is only supported for Layer2 or Layer3 primary networks", "remove transport")
    fields.require("evpn", "write its vtep and VRFs", "spec.evpn field is required when transport is 'EVPN'")
    _check_vrfs(evpn, fields, topology)


def _check_vrfs(evpn: Node | None, fields: Fields, topology: str) -> None:
    """Which VRFs a topology needs; an absent block has none."""
    place = evpn or fields.place("evpn")
    written = evpn.value if evpn else {}
    if not isinstance(written, dict):
        return
    mac, ip = written.get("macVRF") is not None, written.get("ipVRF") is not None
    if topology == LAYER2 and not mac:
        place.refuse("spec.evpn.macVRF field is required for Layer2 topology when transport is 'EVPN'", "add macVRF")
    if topology == LAYER3 and not ip:
        place.refuse("spec.evpn.ipVRF field is required for Layer3 topology when transport is 'EVPN'", "add ipVRF")
    if topology == LAYER3 and mac:
        place.refuse("spec.evpn.macVRF field is forbidden for Layer3 topology when transport is 'EVPN'", "remove it")


def read_uplinks(fields: Fields) -> list[str]:
    """The names of Uplink objects, at most one."""
    node = fields.get("uplinks")
    items = node.sequence(1, 1) if node else []
    return [name for name in map(_read_uplink, items) if name is not None]


def check_uplinks(fields: Fields, network: dict) -> None:
    """Refuse `uplinks` of a network that cannot have any; problems go to the field `uplinks` of `fields`.

    `network` is the spec in normal form. Uplinks are for primary Layer2 and Layer3 networks without EVPN
    (ovn-kubernetes, CRD ClusterUserDefinedNetwork, rules of `spec.uplinks`).
    """
    node = fields.get("uplinks")
    if node and not (network["topology"] in (LAYER2, LAYER3) and network["role"] == PRIMARY):
        node.refuse("spec.uplinks is supported only for primary Layer2 and Layer3 networks", "remove it")
    if node and network["transport"] == _EVPN:
        node.refuse("spec.uplinks is not supported with EVPN transport", "remove one of them")


def _read_uplink(node: Node) -> str | None:
    name = node.text(1, 253)
    if name is not None and not _UPLINK.fullmatch(name):
        node.refuse(f"Invalid value: {show(name)}: {node.body} should match '^{_UPLINK.pattern}$'", "name an Uplink")
    return name


def _read_no_overlay(node: Node) -> dict:
    fields = node.mapping(("outboundSNAT", "routing"))
    values = {}
    for name, words in (("outboundSNAT", ("Enabled", "Disabled")), ("routing", ("Managed", "Unmanaged"))):
        field = fields.require(name, f"set it to {' or '.join(words)}")
        values[name] = field.choice(words) if field else None
    return values


def _read_evpn(node: Node) -> dict:
    fields = node.mapping(("vtep", "macVRF", "ipVRF"))
    vtep = fields.require("vtep", "name the VTEP")
    mac, ip = fields.get("macVRF"), fields.get("ipVRF")
    evpn = {
        "vtep": vtep.text(1) if vtep else None,
        "macVRF": _read_vrf(mac) if mac else None,
        "ipVRF": _read_vrf(ip) if ip else None,
    }
    if isinstance(node.value, dict) and not mac and not ip:
        node.refuse("at least one of macVRF or ipVRF must be specified", "write {vni: 100}")
    if mac and ip and evpn["macVRF"]["vni"] is not None and evpn["macVRF"]["vni"] == evpn["ipVRF"]["vni"]:
        node.refuse("macVRF and ipVRF must use different VNIs", "change one of them")
    return evpn


def _read_vrf(node: Node) -> dict:
    fields = node.mapping(("vni", "routeTarget"))
    vni, target = fields.require("vni", "choose a VXLAN network identifier"), fields.get("routeTarget")
    text = target.text(most=_LONGEST_ROUTE_TARGET) if target else None
    for rule in _broken_route_target_rules(text) if text is not None else ():
        target.refuse(f"Invalid value: {show(text)}: {rule}", "write 65000:100, for example")
    return {"vni": vni.integer(1, _LARGEST_VNI) if vni else None, "routeTarget": text}


def _broken_route_target_rules(text: str) -> list[str]:
    """A route target is ``global:local``, encoded in six bytes."""
    if text.count(":") != 1:
        return ["RT must contain exactly one colon"]
    administrator, _colon, local_text = text.partition(":")
    local = int(local_text) if _NUMBER.fullmatch(local_text) else None
    number = int(administrator) if _NUMBER.fullmatch(administrator) else None
    rules = []
    if administrator != "*" and number is None and parse_address(administrator) is None:
        rules.append("RT global administrator must be either '*', an IPv4 address, or a number")
    if local is None:
        rules.append("RT local administrator must be a number")
    if administrator == "*" and (local is None or local > _LARGEST_4_BYTES):
        rules.append("RT with wildcard global administrator must have format *:OPQR where OPQR <= 4294967295")
    if "." in administrator and (local is None or local > _LARGEST_2_BYTES):
        rules.append("RT with IPv4 global administrator must have format A.B.C.D:MN where MN <= 65535")
    if number is not None and local is not None:
        if number > _LARGEST_2_BYTES and local > _LARGEST_2_BYTES:
            rules.append(
                "RT with 4-byte ASN global administrator must have format GHJK:MN "
                "where GHJK <= 4294967295 and MN <= 65535"
            )
        if number <= _LARGEST_2_BYTES and local > _LARGEST_4_BYTES:
            rules.append(
                "RT with 2-byte ASN global administrator must have format EF:OPQR "
                "where EF <= 65535 and OPQR <= 4294967295"
            )
    return rules
