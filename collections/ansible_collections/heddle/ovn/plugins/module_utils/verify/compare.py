# SPDX-License-Identifier: Apache-2.0
"""Audit of one host: compute every change that applying the plan would make, and write nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from ..agent.context import Invocation
from ..agent.module_runner import KNOWN_ERRORS, NORTHBOUND, SOUTHBOUND, VSWITCH, UserError, known_node, load_plan
from ..agent.node_gateway import apply_gateway, gateway_size
from ..agent.workloads import VSWITCH_DATABASE, uses_userspace
from ..common.change import Foreign, Outcome
from ..common.naming import INTEGRATION_BRIDGE
from ..common.serialization import pack
from ..netlink import kernel
from ..netlink.workload_links import mark, reconcile_endpoints
from ..nftables.reconcile import reconcile_firewall
from ..ovsdb.client import Client
from ..ovsdb.reconcile import reconcile
from ..ovsdb.values import Scope
from ..render import northbound, render_endpoints, render_northbound, render_southbound, southbound
from ..render.common.provider import provider_of
from ..render.host import vswitch
from ..render.host.firewall import render_userspace_interfaces
from ..render.host.vswitch import render_workload_ports
from .drift import drift


def compare(module) -> dict:
    """Return drift, foreign objects and problems of this host."""
    plan = load_plan(module)
    node = known_node(plan, module.params["node"])
    return Comparison(plan, node).result()


class Comparison:
    """Compares a host with its part of the plan."""

    def __init__(self, plan: dict, node: str) -> None:
        self.plan = plan
        self.node = node
        self.topology_owner = f"{plan['deployment']}:topology"
        self.workload_owner = f"{plan['deployment']}:workload"
        self.northbound_rows = render_northbound(plan, node)
        self.southbound_rows = render_southbound(plan, node)
        self.port_rows = render_workload_ports(plan, node)
        self.endpoints = render_endpoints(plan, node)
        self.invocation = Invocation({"node": node, "plan": "", "document": pack(plan)}, check_mode=True)

    def result(self) -> dict:
        """Compare each part; a part that cannot be read is reported as a problem."""
        parts: list[Callable[[], Outcome]] = [
            self._northbound, self._southbound, self._ports, self._gateway, self._endpoints,
        ]  # fmt: skip
        outcome, problems = Outcome(), []
        for part in parts:
            try:
                outcome += part()
            except (*KNOWN_ERRORS, OSError) as error:
                problems.append(str(error))
        rows = self.northbound_rows + self.southbound_rows + self.port_rows
        return {
            "drift": drift(outcome),
            "foreign": [asdict(one) for one in outcome.foreign],
            "problems": list(dict.fromkeys(problems)),
            "checked": len(rows)
            + gateway_size(self.plan, self.node)
            + len(self.endpoints)
            + sum(len(endpoint.links) for endpoint in self.endpoints),
            "digest": self.plan["digest"],
        }

    def _northbound(self) -> Outcome:
        with Client(NORTHBOUND, read_only=True) as client:
            return _rows(client, "OVN_Northbound", self.northbound_rows, self.topology_owner, northbound.TABLES)

    def _southbound(self) -> Outcome:
        """The row of the host's own chassis belongs to ovn-controller; an encapsulation belongs to its chassis."""
        with Client(SOUTHBOUND, read_only=True) as client:
            found = _rows(client, "OVN_Southbound", self.southbound_rows, self.topology_owner, southbound.TABLES)
        own = self.plan["nodes"][self.node]["chassis"]
        return Outcome(found.changes, tuple(one for one in found.foreign if one.kind == "Chassis" and one.name != own))

    def _ports(self) -> Outcome:
        """Only ports of the integration bridge that ovn-controller did not make can conflict with Heddle's."""
        with Client(VSWITCH, read_only=True) as client:
            found = _rows(client, VSWITCH_DATABASE, self.port_rows, self.workload_owner, vswitch.TABLES)
            others = _unexplained_ports(client)
        return Outcome(found.changes, tuple(one for one in found.foreign if one.identity in others))

    def _gateway(self) -> Outcome:
        """Flows and kernel state: management ports, VRFs, routes, rules, nftables tables."""
        # Without the database the engines would count everything as missing, as they do on an empty host.
        with Client(VSWITCH, read_only=True):
            outcome = apply_gateway(self.invocation, self.plan)
        provider = provider_of(self.plan["nodes"][self.node])
        if provider is None:
            return outcome
        # The gateway part has already reported which tables are foreign.
        return outcome + Outcome(
            reconcile_firewall(render_userspace_interfaces(provider.userspace_interfaces), write=False).changes
        )

    def _endpoints(self) -> Outcome:
        if kernel.PYROUTE2_IMPORT_ERROR is not None:
            raise UserError("pyroute2 is missing on this host; run playbooks/install.yml")
        with Client(VSWITCH, read_only=True) as client:
            userspace = uses_userspace(client)
        found = reconcile_endpoints(self.endpoints, owner=self.workload_owner, userspace=userspace, write=False)
        return found + Outcome(foreign=tuple(self._foreign_namespaces()))

    def _foreign_namespaces(self) -> list[Foreign]:
        own = mark(self.workload_owner)
        return [
            Foreign("kernel", "network namespace", name, name)
            for name in kernel.namespaces()
            if kernel.read_links(name).get("lo", {}).get("alias") != own
        ]


def _rows(client: Client, database: str, rows: list, owner: str, tables: tuple[str, ...]) -> Outcome:
    scope = Scope(tables=frozenset(tables))
    return reconcile(client, database, rows, owner=owner, scope=scope, write=False, report_foreign=True)


def _unexplained_ports(client: Client) -> set[str]:
    """Return the uuids of ports of the integration bridge that ovn-controller did not make."""
    where = [["name", "==", INTEGRATION_BRIDGE]]
    answers = client.transact(
        VSWITCH_DATABASE,
        [
            {"op": "select", "table": "Bridge", "where": where, "columns": ["ports"]},
            {"op": "select", "table": "Port", "where": [], "columns": ["_uuid", "name", "external_ids"]},
        ],
    )
    on_bridge = json.dumps([row["ports"] for row in answers[0]["rows"]])
    return {
        row["_uuid"][1]
        for row in answers[1]["rows"]
        if row["_uuid"][1] in on_bridge
        and row["name"] != INTEGRATION_BRIDGE
        and not any(key.startswith("ovn-") for key, _value in row["external_ids"][1])
    }
