# SPDX-License-Identifier: Apache-2.0
"""Converts a network's manifest to the nested form as written, so that two versions can be compared."""

from __future__ import annotations

from .network import LAYER3

_SECTIONS = ("layer2", "layer3", "localnet")


def written_network(manifest: dict) -> dict:
    """``{"topology", "layer2" or "layer3" or "localnet", ...}`` with the fields that are set; null counts as unset."""
    spec = _without_nulls(manifest["spec"])
    network = spec.get("network") or spec.get("template") or spec
    if set(network) == {"spec"}:
        network = network["spec"]
    if not any(name in network for name in _SECTIONS):
        network = _nested(network)
    return {**network, **({"uplinks": spec["uplinks"]} if "uplinks" in spec else {})}


def _nested(flat: dict) -> dict:
    """The nested form of a network in the flat form."""
    fields = {name: value for name, value in flat.items() if name not in ("topology", "ipamLifecycle")}
    if "ipamLifecycle" in flat:
        fields["ipam"] = {**fields.get("ipam", {}), "lifecycle": flat["ipamLifecycle"]}
    if flat["topology"] == LAYER3:
        fields["subnets"] = [_subnet(text) for text in flat["subnets"]]
    return {"topology": flat["topology"], flat["topology"].lower(): fields}


def _subnet(text: str) -> dict:
    """``10.128.0.0/16/24`` as cidr and hostSubnet."""
    if text.count("/") < 2:
        return {"cidr": text}
    cidr, _slash, host_subnet = text.rpartition("/")
    return {"cidr": cidr, "hostSubnet": int(host_subnet)}


def _without_nulls(value):
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
