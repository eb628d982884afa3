# SPDX-License-Identifier: Apache-2.0
"""The fields of a Service that its cluster IPs and address families are chosen by (Kubernetes, dual-stack services).

Which families a cluster has is checked at admission (`controllers/services/cluster_ips.py`).
"""

from __future__ import annotations

from ..addresses import parse_address
from ..node import Fields, Node
from ..problem import show
from .ports import refuse_duplicates

NONE = "None"
IPV4, IPV6 = "IPv4", "IPv6"
SINGLE, PREFER, REQUIRE = "SingleStack", "PreferDualStack", "RequireDualStack"
_MOST = 2


def read_service_addresses(fields: Fields, *, are_allowed: bool = True) -> dict:
    """``clusterIPs`` (requested ones, ["None"] for a headless Service), ``ipFamilies`` and ``ipFamilyPolicy``.

    A Service of a type that has no addresses has none of them.
    """
    if not are_allowed:
        return {"clusterIPs": [], "ipFamilies": [], "ipFamilyPolicy": None}
    families, policy = fields.get("ipFamilies"), fields.get("ipFamilyPolicy")
    chosen = _families(families) if families else []
    addresses = _cluster_ips(fields, chosen)
    wanted = policy.choice((PREFER, REQUIRE, SINGLE)) if policy else None
    if wanted in (None, SINGLE) and not (wanted is None and policy):
        for values, what in ((addresses, "cluster IPs"), (chosen, "IP families")):
            if len(values) == _MOST:
                value = show(wanted) if wanted else "null"
                rule = f"must be '{REQUIRE}' or '{PREFER}' when multiple {what} are specified"
                fields.place("ipFamilyPolicy").refuse(f"Invalid value: {value}: {rule}")
                break
    return {"clusterIPs": addresses, "ipFamilies": chosen, "ipFamilyPolicy": wanted}


def _families(node: Node) -> list[str]:
    items = node.sequence(most=_MOST)
    found = [item.choice((IPV4, IPV6)) for item in items]
    refuse_duplicates(items, found)
    return [family for family in found if family]


def _cluster_ips(fields: Fields, families: list[str]) -> list[str]:
    """Both spellings of the requested addresses: ``clusterIPs``, and ``clusterIP`` for the first of them."""
    single, several = fields.get("clusterIP"), fields.get("clusterIPs")
    if single is not None and single.value == "":
        single = None
    if several is None or several.value == []:
        return [text] if single and (text := _cluster_ip(single, families, 0)) else []
    items = several.sequence(most=_MOST)
    if single is None:
        several.refuse("Invalid value: must be empty when `clusterIP` is not specified", "add clusterIP")
        return []
    found = [_cluster_ip(item, families, position) for position, item in enumerate(items)]
    if NONE in found and len(items) > 1:
        several.refuse(f"Invalid value: '{NONE}' must be the first and only value")
        return []
    if found and single.value != items[0].value:
        several.refuse("Invalid value: first value must match `clusterIP`")
        return []
    addresses = [address for address in found if address]
    if len(addresses) == _MOST and len({":" in address for address in addresses}) == 1:
        several.refuse("Invalid value: may specify no more than one IP for each IP family")
    return addresses


def _cluster_ip(node: Node, families: list[str], position: int) -> str | None:
    text = node.text()
    if text is None or text == NONE:
        return text
    address = parse_address(text)
    if address is None:
        rule = f"Invalid value: {show(text)}: must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        node.refuse(rule, f"or write {NONE} for a headless Service")
        return None
    its = IPV6 if address.version == 6 else IPV4
    if position < len(families) and families[position] != its:
        wanted = "IPv6" if families[position] == IPV6 else "IPv4"
        node.refuse(f"Invalid value: {show(text)}: expected an {wanted} value as indicated by `ipFamilies[{position}]`")
        return None
    return str(address)
