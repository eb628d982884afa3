# SPDX-License-Identifier: Apache-2.0
"""The address sets of DNS names in this host's Northbound database: which there are, and their addresses."""

from __future__ import annotations

from dataclasses import dataclass

from ..common.databases import OVN_NORTHBOUND
from ..common.naming import EGRESS_FIREWALL_DNS
from ..ovsdb.protocol.client import Client
from ..ovsdb.protocol.monitor import Monitor
from ..ovsdb.values import map_pairs

_COLUMNS = ["_uuid", "addresses", "external_ids"]


@dataclass(frozen=True)
class AddressSet:
    """One row: `version` is the family of its addresses."""

    uuid: str
    name: str
    version: int
    addresses: frozenset[str]


class AddressSets:
    """A connection to the database; OvsdbError or Unreachable when it is lost, then make another one."""

    def __init__(self, remote: str) -> None:
        tables = {"Address_Set": {"columns": ["addresses", "external_ids"]}}
        self._monitor = Monitor(remote, OVN_NORTHBOUND, tables)
        self._client = Client(remote)

    def fileno(self) -> int:
        """Return what is readable when `changed` has something to read."""
        return self._monitor.fileno()

    def changed(self) -> bool:
        """Return whether any address set has changed since the last call."""
        return bool(self._monitor.changed())

    def read(self) -> list[AddressSet]:
        """Return the address sets of DNS names."""
        return read_address_sets(self._client)

    def write(self, changes: dict[AddressSet, frozenset[str]]) -> None:
        """Give sets other addresses, in one transaction; a set that has gone meanwhile is left out."""
        self._client.transact(OVN_NORTHBOUND, [_update(one, addresses) for one, addresses in changes.items()])

    def close(self) -> None:
        """End the connection."""
        self._monitor.close()
        self._client.close()


def read_address_sets(client: Client) -> list[AddressSet]:
    """Return the address sets of DNS names in a Northbound database."""
    where = [["external_ids", "includes", ["map", [["k8s.ovn.org/owner-type", EGRESS_FIREWALL_DNS]]]]]
    select = {"op": "select", "table": "Address_Set", "columns": _COLUMNS, "where": where}
    (result,) = client.transact(OVN_NORTHBOUND, [select])
    return [found for row in result["rows"] if (found := _address_set(row))]


def _update(one: AddressSet, addresses: frozenset[str]) -> dict:
    return {
        "op": "update", "table": "Address_Set", "where": [["_uuid", "==", ["uuid", one.uuid]]],
        "row": {"addresses": ["set", sorted(addresses)]},
    }  # fmt: skip


def _address_set(row: dict) -> AddressSet | None:
    ids = dict(map_pairs(row["external_ids"]))
    family, name = ids.get("ip-family"), ids.get("k8s.ovn.org/name")
    if family not in ("v4", "v6") or not name:
        return None
    value = row["addresses"]
    addresses = value[1] if isinstance(value, list) else [value]
    return AddressSet(row["_uuid"][1], name, int(family[1]), frozenset(addresses))
