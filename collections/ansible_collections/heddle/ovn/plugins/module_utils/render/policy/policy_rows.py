# SPDX-License-Identifier: Apache-2.0
"""Port groups, address sets and ACLs with ovn-kubernetes's names and external_ids (`DbObjectIDs`)."""

from __future__ import annotations

from collections.abc import Iterable

from ...common.addressing import family
from ...common.naming import hashed_name
from ...types.ovsdb_row import Parent, Ref, Row
from ..common.dhcp_server import SERVER
from ..common.node_network import NodeNetwork
from ..common.ovn_rows import SWITCH, SWITCH_PORT

INGRESS, EGRESS = "Ingress", "Egress"
ALLOW, DENY = "allow-related", "drop"
# As ovn-kubernetes: the tier of NetworkPolicy, and its two priorities.
DEFAULT_TIER = 2
ALLOW_PRIORITY, DENY_PRIORITY = 1001, 1000

# Requests of virtual machines for their addresses, which OVN answers itself (RFC 2131, RFC 8415).
LEASES = (
    f"(ip4.dst == {{255.255.255.255, {SERVER}}} && udp.src == 68 && udp.dst == 67) || "
    "(ip6.dst == ff02::1:2 && udp.src == 546 && udp.dst == 547)"
)
# The meter that limits how many packets are logged.
LOGGING_METER = "acl-logging"
# What the logging of a namespace or of a policy calls an action.
_LOGGED_AS = {"allow-related": "allow", "allow": "allow", "drop": "deny", "pass": "pass"}
_LONGEST_NAME = 63
_DIRECTION = {INGRESS: "to-lport", EGRESS: "from-lport"}


def primary_id(view: NodeNetwork, owner_type: str, *keys: str) -> str:
    """Return the id of an object: its controller, the type of its owner, and what identifies it among these."""
    return ":".join((f"{view.name}-network-controller", owner_type, *keys))


def port_match(direction: str, group: str) -> str:
    """Return the match for the port of a workload in a group: the one that packets go to, or come from."""
    return f"{'outport' if direction == INGRESS else 'inport'} == @{group}"


def port_group(view: NodeNetwork, owner_type: str, keys: dict[str, str], ports: Iterable[str]) -> Row:
    """Port group. `keys` identify it among those of the type of owner, `name` first."""
    identity = primary_id(view, owner_type, *keys.values())
    name = hashed_name(identity)
    columns = {
        "name": name,
        "ports": {Ref(SWITCH_PORT, port) for port in ports},
        "external_ids": object_ids(view, owner_type, keys),
    }
    return Row("Port_Group", name, columns, view.name)


def address_set(view: NodeNetwork, owner_type: str, name: str, version: int, addresses: Iterable[str]) -> Row:
    """Address set with the addresses of one family."""
    keys = {"name": name, "ip-family": f"v{version}"}
    columns = {
        "name": address_set_name(view, owner_type, name, version),
        "addresses": {address for address in addresses if family(address) == version},
        "external_ids": object_ids(view, owner_type, keys),
    }
    return Row("Address_Set", columns["name"], columns, view.name)


def address_set_name(view: NodeNetwork, owner_type: str, name: str, version: int) -> str:
    """Return the name of an address set in the database and, after `$`, in matches."""
    return hashed_name(primary_id(view, owner_type, name, f"v{version}"))


def acl(
    view: NodeNetwork,
    parent: Parent,
    direction: str,
    priority: int,
    match: str,
    action: str,
    *,
    owner_type: str,
    keys: dict[str, str],
    label: str = "",
    tier: int = DEFAULT_TIER,
    logging: dict[str, str] | None = None,
) -> Row:
    """ACL; `label` is its name, `keys` identify it among those of the type of owner, `name` first.

    `logging` has the severity with which packets are logged, for `allow`, `deny` and `pass`.
    What a workload sends is matched after load balancing, when the destination is an endpoint and not a service.
    """
    identity = primary_id(view, owner_type, *keys.values())
    severity = (logging or {}).get(_LOGGED_AS[action])
    columns = {
        "name": label[:_LONGEST_NAME] or set(),
        "direction": _DIRECTION[direction],
        "priority": priority,
        "match": match,
        "action": action,
        "tier": tier,
        "log": severity is not None,
        "severity": severity or set(),
        "meter": LOGGING_METER if severity else set(),
        "options": {"apply-after-lb": "true"} if direction == EGRESS else {},
        "external_ids": object_ids(view, owner_type, keys),
    }
    return Row("ACL", identity, columns, view.name, parent)


def on_group(group: Row) -> Parent:
    """Return the parent of the ACLs of a port group."""
    return Parent("Port_Group", group.key, "acls")


def on_switch(name: str) -> Parent:
    """Return the parent of the ACLs of a switch."""
    return Parent(SWITCH, name, "acls")


def object_ids(view: NodeNetwork, owner_type: str, keys: dict[str, str]) -> dict[str, str]:
    """Return the external_ids of an object of a type of owner; `keys` identify it among those, `name` first."""
    name, *others = keys.items()
    return {
        "k8s.ovn.org/owner-controller": f"{view.name}-network-controller",
        "k8s.ovn.org/owner-type": owner_type,
        "k8s.ovn.org/name": name[1],
        "k8s.ovn.org/id": primary_id(view, owner_type, *keys.values()),
        **dict(others),
    }
