# SPDX-License-Identifier: Apache-2.0
"""What a workload's annotation selects, against the networks that there are.

Multus resolves a name to an attachment definition of any namespace (its option `namespaceIsolation` is off by default),
and ovn-kubernetes attaches whatever definition of a secondary network is named, also more than once. A static address
needs a network without subnets there ("Setting static IP addresses on a pod"), and a primary network cannot be named.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator

from ...api import selection_path
from ...common.addressing import family, overlapping, plain
from ...common.naming import workload_port
from ...store.snapshot import Snapshot, StoredObject
from ..admission.overlaps import own_subnets
from ..admission.rules import Refusal
from .attachment import Attachment, Attachments, selection
from .attachment_definition import is_own
from .networks import DEFINITION_KIND, Network

# Reason and message of a condition.
Waiting = tuple[str, str]
INVALID = "InvalidNetworkSelection"


def check_selections(snapshot: Snapshot, attachments: Attachments, given: Collection[str]) -> Iterator[Refusal]:
    """Refuse manifests (`given`, by key) that request of a network what it cannot give."""
    for workload in snapshot.of_kind("Workload"):
        for position, (definition, requested) in enumerate(selection(workload) if workload.key in given else ()):
            network = attachments.defined(definition)
            for field, rule, remedy in _mistakes(network, requested) if network is not None else ():
                yield workload.key, selection_path(position, field), rule, remedy


def unresolved_selection(snapshot: Snapshot, workload: StoredObject, attachments: Attachments) -> Waiting | None:
    """Return reason and message when a network that a workload selects is not there (yet)."""
    for position, (definition, _requested) in enumerate(selection(workload)):
        if attachments.defined(definition) is None:
            reason, message = _unresolved(snapshot, definition)
            return reason, f"{selection_path(position)}: {message}"
    return None


def impossible_selection(workload: StoredObject, attachments: Attachments) -> Waiting | None:
    """Return reason and message when a workload cannot have what it selects of the networks that are there."""
    for position, (definition, requested) in enumerate(selection(workload)):
        network = attachments.defined(definition)
        for field, rule, remedy in _mistakes(network, requested) if network is not None else ():
            return INVALID, f"{selection_path(position, field)}: {rule}; {remedy}"
    interfaces = attachments.of(workload)
    if sum(not one.network.is_default for one in interfaces) < 2:
        # The default network's port has a name of another form, and its subnets overlap with no others.
        return None
    return _alike(workload, interfaces) or _overlap(interfaces)


def _unresolved(snapshot: Snapshot, definition: str) -> Waiting:
    entry = snapshot.objects.get(f"{DEFINITION_KIND}/{definition}")
    if entry is None:
        rule = f"there is no network attachment definition {definition}"
        return "NetworkAttachmentDefinitionNotFound", rule
    if not is_own(entry):
        rule = f"a user applied the network attachment definition {definition}, and Heddle makes no network of it"
        return "ForeignNetworkAttachmentDefinition", rule
    return "NetworkNotReady", f"{entry.spec['owner']} is not applied, and its status says why"


def _mistakes(network: Network, requested: dict) -> Iterator[tuple[str, str, str]]:
    """Field, rule and remedy of what a network cannot give."""
    if network.role == "Primary":
        rule = f"{network.object_key} is a primary network, and only secondary ones are selected"
        yield "name", rule, "remove it; a workload joins the primary network of its namespace without a request"
        return
    if requested["ips"] and network.has_ipam:
        rule = f"{network.object_key} allocates the addresses of its interfaces itself"
        yield "ips", rule, "remove ips, or choose a Layer2 or Localnet network with ipam.mode Disabled"
        return
    subnets = [subnet["cidr"] for subnet in network.subnets] + [_subnet_of(address) for address in requested["ips"]]
    for gateway in requested["gateways"]:
        if rule := _unreachable(gateway, subnets, [plain(address) for address in requested["ips"]]):
            yield "default-route", rule, "choose an address of a subnet that the interface has an address of"


def unreachable_gateway(attachment: Attachment, subnets: list[str]) -> str:
    """Return why an interface cannot reach a gateway that is requested for it; `subnets` are those of its addresses."""
    own = [*subnets, *map(_subnet_of, attachment.addresses)]
    rules = (
        _unreachable(gateway, own, [plain(one) for one in attachment.addresses]) for gateway in attachment.gateways
    )
    return next((rule for rule in rules if rule), "")


def _unreachable(gateway: str, subnets: list[str], addresses: list[str]) -> str:
    if gateway in addresses:
        return f"the gateway {gateway} is the interface's own address"
    # Every interface has a link-local IPv6 address.
    if ipaddress.ip_address(gateway).is_link_local and family(gateway) == 6:
        return ""
    if not any(overlapping(gateway, subnet) for subnet in subnets):
        return f"the gateway {gateway} is in no subnet of the interface ({', '.join(subnets) or 'it has none'})"
    return ""


def _subnet_of(address: str) -> str:
    return str(ipaddress.ip_interface(address).network)


def _alike(workload: StoredObject, interfaces: list[Attachment]) -> Waiting | None:
    """Two attachments whose ports would have one name: `-`, `/` and `.` look alike in OVN."""
    holders: dict[str, str] = {}
    for one in interfaces:
        port = workload_port(workload.namespace, workload.name, one.nad)
        other = holders.setdefault(port, one.interface)
        if other != one.interface:
            return INVALID, f"the ports of {other} and {one.interface} would both be called {port}; rename a network"
    return None


def _overlap(interfaces: list[Attachment]) -> Waiting | None:
    """OKEP-5193, "IP Addressing": the networks that a pod connects to may not overlap. The default one never does."""
    seen: list[tuple[Attachment, list[str]]] = []
    for one in interfaces:
        subnets = [] if one.network.is_default else own_subnets(one.network) + [_subnet_of(ip) for ip in one.addresses]
        for other, taken in seen:
            if other.network.name == one.network.name:
                continue
            pair = next(((mine, its) for mine in subnets for its in taken if overlapping(mine, its)), None)
            if pair:
                return "NetworksOverlap", (
                    f"pod or join subnet overlaps: {pair[0]} of {one.network.object_key} with {pair[1]} of "
                    f"{other.network.object_key}, and the workload selects both"
                )
        seen.append((one, subnets))
    return None
