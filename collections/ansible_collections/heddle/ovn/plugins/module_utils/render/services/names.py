# SPDX-License-Identifier: Apache-2.0
"""Names of a network's Services and workloads, which OVN itself answers on the network's switch (ovn-nb(5), DNS).

Each network has a row of its own: a name exists in its network only, also where addresses are equal. Names of Services
are those of Kubernetes (DNS-Based Service Discovery); workloads are beside them, under `pod`. A workload whose name no
Service of its namespace has is under `svc` as well: resolvers append that domain to a short name first, and a name that
OVN does not have would go to the name servers of the node.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...common.addressing import family, plain, reverse_name
from ...types.ovsdb_row import Parent, Row
from ..common.node_network import NodeNetwork
from ..common.ovn_rows import SWITCH

_SERVICE, _WORKLOAD = "svc", "pod"
# Addresses of a name by family. OVN neither shortens an answer nor marks it as truncated (pinctrl.c): so many, with the
# longest name, fit in a packet of 1280 bytes. Clients may get any part of a headless Service's endpoints.
MOST_ADDRESSES = 32


def render_names(view: NodeNetwork) -> list[Row]:
    """Return the row with all names of a primary network; none without the setting `cluster_domain`."""
    domain = view.settings.get("cluster_domain")
    if not domain or not view.is_primary:
        return []
    named = list(_named(view))
    if not any(addresses for *_name, addresses in named):
        return []
    columns = {
        "records": _records(named, domain, {(_SERVICE, name) for name in view.headless_services})
        | _endpoint_records(view.headless_services, domain),
        # A name without an address of the family that was asked for has an empty answer at once.
        "options": {"ovn-owned": "true"},
    }
    key = f"{view.name} names"
    return [Row("DNS", key, columns, view.name, Parent(SWITCH, view.workload_switch, "dns_records"))]


def _named(view: NodeNetwork) -> Iterator[tuple[str, str, str, list[str]]]:
    """Kind, namespace, name and addresses of all that has a name, Services first."""
    addresses_of = {name: described["addresses"] for name, described in view.services.items()}
    for name, endpoints in view.headless_services.items():
        addresses_of[name] = list(dict.fromkeys(address for own in endpoints.values() for address in own))
    for service, addresses in addresses_of.items():
        namespace, _slash, name = service.partition("/")
        yield _SERVICE, namespace, name, addresses
    for workload, interface in view.workloads:
        addresses = [plain(address) for address in interface["addresses"]]
        # A workload whose primary network is another one is locked here.
        if addresses and interface["role"] == "primary":
            yield _WORKLOAD, workload["namespace"], workload["name"], addresses


def _endpoint_records(headless: dict[str, dict[str, list[str]]], domain: str) -> dict[str, str]:
    """Return the addresses of single endpoints of headless Services, by names below those of the Services."""
    records = {}
    for service, endpoints in headless.items():
        namespace, _slash, name = service.partition("/")
        for endpoint, addresses in endpoints.items():
            if endpoint:
                records[f"{endpoint}.{name}.{namespace}.{_SERVICE}.{domain}"] = _text(addresses)
    return records


def _records(
    named: list[tuple[str, str, str, list[str]]], domain: str, endpoints: set[tuple[str, str]]
) -> dict[str, str]:
    """Return addresses by name, and names by address; `endpoints` are Services whose addresses have other names.

    Without `svc` or `pod` a name is that of the Service where a workload has the same one, also of a Service without
    addresses; without a namespace it is left out when several namespaces of the network have it.
    """
    records: dict[str, str] = {}
    silent = {(namespace, name) for kind, namespace, name, addresses in named if kind == _SERVICE and not addresses}
    namespaces: dict[str, set[str]] = {}
    for _kind, namespace, name, _addresses in named:
        namespaces.setdefault(name, set()).add(namespace)
    for kind, namespace, name, addresses in named:
        full, text = f"{name}.{namespace}.{kind}.{domain}", _text(addresses)
        for address in addresses if (kind, f"{namespace}/{name}") not in endpoints else ():
            records.setdefault(reverse_name(address), full)
        if addresses:
            records[full] = text
        if (namespace, name) in silent:
            continue
        records.setdefault(f"{name}.{namespace}.{_SERVICE}.{domain}", text)
        records.setdefault(f"{name}.{namespace}", text)
        if len(namespaces[name]) == 1:
            records.setdefault(name, text)
    return records


def _text(addresses: list[str]) -> str:
    """Return the addresses of a name, IPv4 first, as many of each family as an answer holds."""
    kept = [[one for one in addresses if family(one) == version][:MOST_ADDRESSES] for version in (4, 6)]
    return " ".join(one for own in kept for one in own)
