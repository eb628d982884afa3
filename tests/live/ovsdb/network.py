# SPDX-License-Identifier: Apache-2.0
"""DesiredRow rows for tests of the engine: a small network of each kind of row, and what others write beside it."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.reconcile import (
    Keys,
    Parent,
    Ref,
    Row,
    Scope,
    reconcile,
)

DATABASE = "OVN_Northbound"
OWNER = "test"
EVERYTHING = Scope()


def network(name: str, mtu: str = "1400") -> list[Row]:
    """A switch with two ports and an ACL, a router with a port, a route and a balancer, all kinds of references."""
    switch, router = f"{name}_switch", f"{name}_router"

    def row(table, key, columns, parent=None):
        columns = {**columns, "external_ids": {"network": name}} if table != "Static_MAC_Binding" else columns
        return Row(table, key, columns, name, parent)

    ports = Parent("Logical_Switch", switch, "ports")
    return [
        row("Logical_Switch", switch, {"name": switch, "load_balancer": {Ref("Load_Balancer", f"{name}_lb")}}),
        row(
            "Logical_Switch_Port",
            f"{name}_a",
            {"name": f"{name}_a", "addresses": ["0a:58:0a:00:00:01 10.0.0.1"]},
            ports,
        ),
        row(
            "Logical_Switch_Port",
            f"{name}_r",
            {"name": f"{name}_r", "type": "router", "options": {"router-port": f"{name}_lrp"}, "addresses": ["router"]},
            ports,
        ),
        row(
            "ACL",
            f"{name}_acl",
            {"priority": 1001, "direction": "to-lport", "match": f'outport == "{name}_a"', "action": "allow-related"},
            Parent("Logical_Switch", switch, "acls"),
        ),
        row("Logical_Router", router, {"name": router, "copp": Ref("Copp", "shared")}),
        row(
            "Logical_Router_Port",
            f"{name}_lrp",
            {
                "name": f"{name}_lrp",
                "mac": "0a:58:0a:00:00:fe",
                "networks": {"10.0.0.254/24", "fd00::fe/64"},
                "options": {"gateway_mtu": mtu},
            },
            Parent("Logical_Router", router, "ports"),
        ),
        row(
            "Logical_Router_Static_Route",
            f"{name}_route",
            {"ip_prefix": "0.0.0.0/0", "nexthop": "10.0.0.1"},
            Parent("Logical_Router", router, "static_routes"),
        ),
        row("Load_Balancer", f"{name}_lb", {"name": f"{name}_lb", "vips": {"10.1.0.1:80": "10.0.0.1:8080"}}),
        row(
            "Static_MAC_Binding",
            f"{name}_smb",
            {"logical_port": f"{name}_lrp", "ip": "10.0.0.9", "mac": "0a:58:00:00:00:09"},
        ),
    ]


def shared() -> list[Row]:
    """What networks have in common: a policing row and a port group with a port of every network."""
    return [
        Row("Copp", "shared", {"name": "heddle", "meters": {"arp": "arp-limiter"}}),
        Row("NB_Global", "global", {"options": Keys({"mac_prefix": "0a:58:00", "unwanted": None})}, match={}),
    ]


def rows(*names: str, mtu: str = "1400") -> list[Row]:
    """The desired rows of some networks."""
    return shared() + [row for name in names for row in network(name, mtu)]


def changed(desired, table, key, **columns):
    """The same rows, one of them with other columns."""
    return [
        replace(row, columns={**row.columns, **columns}) if (row.table, row.key) == (table, key) else row
        for row in desired
    ]


def converge(server, desired, **options):
    """Run the engine against a server, by default with everything that the owner has in scope."""
    options = {"owner": OWNER, "scope": EVERYTHING, **options}
    with server.client(read_only=not options.get("write", True)) as client:
        return reconcile(client, server.database, desired, **options)


def actions(outcome) -> list[str]:
    """The changes of an outcome, sorted: `create Logical_Switch A_switch`."""
    return sorted(f"{change.action} {change.kind} {change.name}" for change in outcome.changes)


class Counting:
    """A client that counts transactions which could write."""

    def __init__(self, client) -> None:
        self._client = client
        self.writes = 0

    def __getattr__(self, name):
        return getattr(self._client, name)

    def pipeline(self, database, transactions):
        """Count what goes through."""

        def counted():
            for operations in transactions:
                self.writes += 1
                yield operations

        return self._client.pipeline(database, counted())


class Killed(Exception):
    """The test ended a run between two transactions."""


class Dying(Counting):
    """A client whose process dies after some transactions."""

    def __init__(self, client, survives: int) -> None:
        super().__init__(client)
        self._survives = survives

    def pipeline(self, database, transactions):
        """Die when the allowance is used up."""

        def limited():
            for operations in transactions:
                if self.writes == self._survives:
                    raise Killed
                self.writes += 1
                yield operations

        return self._client.pipeline(database, limited())
