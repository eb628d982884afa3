# SPDX-License-Identifier: Apache-2.0
"""Audit of one host: compute every change that applying the plan would make, and write nothing."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Set
from dataclasses import asdict, dataclass

from ...agent.chassis.chassis import apply_chassis
from ...agent.comparison_record import ComparisonRecord
from ...agent.context import NodeContext
from ...agent.egress_nat import apply_egress
from ...agent.health.health import other_chassis, other_facts, routing, stopped_of, stopped_services
from ...agent.module_runner import KNOWN_ERRORS, Request, UserError, connected, known_node, load_host_plan, node_context
from ...agent.node_gateway import apply_gateway, gateway_size, render_gateway_rows
from ...agent.service.components import read_host
from ...agent.topology import apply_northbound
from ...agent.underlay import narrow_paths, narrow_underlay
from ...agent.workloads import (
    apply_routed_workloads,
    close_stale_ports,
    compared_virtual_machines,
    integration_bridge,
    node_endpoints,
    render_switch_rows,
    routed_size,
    uses_userspace,
)
from ...common.change import Foreign, Outcome
from ...common.databases import (
    NORTHBOUND_REMOTE,
    OPEN_VSWITCH,
    OVN_NORTHBOUND,
    OVN_SOUTHBOUND,
    SOUTHBOUND_REMOTE,
    VSWITCH_REMOTE,
)
from ...common.naming import INTEGRATION_BRIDGE
from ...common.plan_format import has_ovn
from ...netlink import kernel
from ...netlink.workload_links import foreign_namespaces, reconcile_endpoints
from ...openflow.switch import Switch
from ...ovsdb.empty_database import planned
from ...ovsdb.protocol.client import Client
from ...ovsdb.reconcile import reconcile
from ...ovsdb.values import Scope, map_pairs, uuids
from ...render import northbound, southbound
from ...render.common.node_network import is_on
from ...render.common.overlay import overlay_of
from ...render.host import vswitch
from ...render.host.qemu import render_virtual_machines
from ...render.northbound import render_northbound
from ...render.southbound import render_southbound
from ...types.ovsdb_row import Row
from . import causes
from .drift import drift

# Stands for all substrates.
EVERYTHING = "everything"


def audit_result(request: Request) -> dict:
    """Return the result of the module `audit`."""
    return {"changed": False, **compare(node_context(request))}


def compare(context: NodeContext) -> dict:
    """Return drift, foreign objects, notes and problems of this host: the result of module `audit`, as its RETURN says.

    A part that cannot be read is a problem in the result. UserError when there is no plan or it has no such node.
    """
    plan = load_host_plan(context)
    return Comparison(plan, known_node(plan, context.node)).result()


@dataclass(frozen=True)
class _Compared:
    outcome: Outcome
    problems: list[str]
    # The problem that the host has another system-id than the plan.
    other_chassis: str


class Comparison:
    """Compares a host with its part of the plan.

    With `record`, `summary` does not compare again what is read as in a recorded comparison, and records what it
    compared. `result` uses none.
    """

    def __init__(self, plan: dict, node: str, record: ComparisonRecord | None = None) -> None:
        self.plan = plan
        self.node = node
        self.record = record
        self.topology_owner = f"{plan['deployment']}:topology"
        self.workload_owner = f"{plan['deployment']}:workload"

    @functools.cached_property
    def northbound_rows(self) -> list[Row]:
        """The rows that the Northbound database should have."""
        return render_northbound(self.plan, self.node) if has_ovn(self.plan) else []

    @functools.cached_property
    def southbound_rows(self) -> list[Row]:
        """The rows that the Southbound database should have."""
        return render_southbound(self.plan, self.node) if has_ovn(self.plan) else []

    @functools.cached_property
    def port_rows(self) -> list[Row]:
        """The ports of workloads, and the bridge of the mesh."""
        if not has_ovn(self.plan):
            return []
        with connected(VSWITCH_REMOTE, write=False) as client:
            return render_switch_rows(client, self.plan, self.node)

    @functools.cached_property
    def endpoints(self) -> list:
        """The network namespaces and links of workloads."""
        return node_endpoints(self.plan, self.node)

    def _compared(self, parts: list[Callable[[], Outcome]], stopped: dict[str, str]) -> _Compared:
        """Compare each part; a part that cannot be read is reported as a problem."""
        outcome, problems, other = Outcome(), list(stopped.values()), []
        for part in parts:
            try:
                outcome += part()
            except (*KNOWN_ERRORS, kernel.NetlinkFailure, OSError) as error:
                problems.append(str(error))
        with contextlib.suppress(*KNOWN_ERRORS, OSError):
            other = other_chassis(self.node, self.plan, VSWITCH_REMOTE)
        return _Compared(outcome, list(dict.fromkeys([*problems, *other])), next(iter(other), ""))

    def _parts(self) -> list[Callable[[], Outcome]]:
        if not has_ovn(self.plan):
            return [self._endpoints]
        return [self._northbound, self._southbound, self._ports, self._gateway, self._endpoints, self._virtual_machines]

    def _parts_of(self, written: Set[str]) -> list[Callable[[], Outcome]]:
        """Return the parts that are in substrates which were written: the run found no difference in all others."""
        places = {
            self._recorded_northbound: {OVN_NORTHBOUND},
            self._southbound: {OVN_SOUTHBOUND},
            self._ports: {OPEN_VSWITCH},
            self._gateway: {OPEN_VSWITCH, "kernel", "nftables", "openflow"},
            self._endpoints: {"kernel", "nftables", "files", "BIRD"},
            self._virtual_machines: {"kernel", "hypervisor"},
        }
        if not has_ovn(self.plan) or not written <= set().union(*places.values()):
            return self._parts()
        return [part for part, substrates in places.items() if substrates & written]

    def summary(self, *, written: Set[str], chassis: bool = True) -> dict:
        """Return the networks that drifted, problems and the plan's digest: what readiness depends on.

        The plan was applied just now; what it covers is read again only where something of it was `written`, substrates
        as in `Change`. Without `chassis` what the install playbook sets is not read.
        """
        # Without the mesh's daemon, which starts after the plan was applied.
        stopped = stopped_of(self.plan)
        parts = [*([self._chassis] if chassis else []), *(self._parts_of(written) if written else [])]
        compared = self._compared(parts, stopped)
        networks = dict.fromkeys(change["network"] for change in drift(compared.outcome))
        return {
            "drift": [{"network": network} for network in networks],
            "problems": compared.problems,
            "stopped": list(stopped),
            "digest": self.plan["digest"],
            "paths": self._paths(),
        }

    def result(self) -> dict:
        """Compare all parts."""
        stopped = {**stopped_of(self.plan), **stopped_services(self.plan)}
        compared = self._compared([self._chassis, *self._parts()], stopped)
        outcome = compared.outcome
        rows = self.northbound_rows + self.southbound_rows + self.port_rows
        management = self._own_ports() if has_ovn(self.plan) else []
        entries = drift(outcome)
        known = causes.Host(
            parents=causes.parents_of([*rows, *management]),
            ports=_ports_of_bridges(),
            networks=frozenset(name for name, one in self.plan["networks"].items() if is_on(one, self.node)),
            stopped=stopped,
            other_chassis=compared.other_chassis,
        )
        found, places = causes.group(entries, known)
        return {
            "drift": [{**entry, "cause": place} for entry, place in zip(entries, places, strict=True)],
            "causes": found,
            "foreign": [asdict(one) for one in outcome.foreign],
            "notes": list(dict.fromkeys([*outcome.notes, *self._paths()])),
            "paths": self._paths(),
            "problems": compared.problems,
            "stopped": list(stopped),
            "checked": len(rows)
            + gateway_size(self.plan, self.node)
            + len(self.endpoints)
            + sum(len(endpoint.links) for endpoint in self.endpoints)
            + routed_size(self.plan, self.node)
            + len(render_virtual_machines(self.plan, self.node)),
            "digest": self.plan["digest"],
            **({"routing": routing(self.plan)} if "coil" in self.plan else {}),
        }

    def _paths(self) -> list[str]:
        """Return what of the underlay does not carry what the networks need."""
        if kernel.PYROUTE2_IMPORT_ERROR is not None or not has_ovn(self.plan):
            return narrow_paths(self.plan)
        found: list[str] = []
        # The parts report a kernel that cannot be read.
        with contextlib.suppress(kernel.NetlinkFailure, OSError):
            found += narrow_underlay(self.plan, self.node)
        return found + narrow_paths(self.plan)

    def _own_ports(self) -> list[Row]:
        """Return the ports of the host itself."""
        with connected(VSWITCH_REMOTE, write=False) as client:
            return render_gateway_rows(client, self.plan, self.node)

    def _chassis(self) -> Outcome:
        """What the install playbook sets: what ovn-controller reads, the bridges, and the uplinks attached to them."""
        with Client(VSWITCH_REMOTE, read_only=True) if has_ovn(self.plan) else contextlib.nullcontext():
            kind = overlay_of(self.plan).kind
            outcome, facts = apply_chassis(read_host()["chassis"], write=False, encapsulation=kind)
        return outcome + Outcome(notes=tuple(other_facts(self.node, facts["gateway"], self.plan)))

    def _northbound(self) -> Outcome:
        with Client(NORTHBOUND_REMOTE, read_only=True) as client:
            return _rows(client, OVN_NORTHBOUND, self.northbound_rows, self.topology_owner, northbound.TABLES)

    def _recorded_northbound(self) -> Outcome:
        if self.record is None:
            return self._northbound()
        if OVN_NORTHBOUND in self.record.confirmed:
            return Outcome()
        with Client(NORTHBOUND_REMOTE, read_only=True) as client:
            context = NodeContext(self.node, "", write=False, record=self.record)
            return apply_northbound(context, client, self.plan, self.topology_owner)

    def _southbound(self) -> Outcome:
        """The row of the host's own chassis belongs to ovn-controller; an encapsulation belongs to its chassis."""
        with Client(SOUTHBOUND_REMOTE, read_only=True) as client:
            found = _rows(client, OVN_SOUTHBOUND, self.southbound_rows, self.topology_owner, southbound.TABLES)
        own = self.plan["nodes"][self.node]["chassis"]
        return Outcome(found.changes, tuple(one for one in found.foreign if one.kind == "Chassis" and one.name != own))

    def _ports(self) -> Outcome:
        """Only ports of the integration bridge that ovn-controller did not make can conflict with Heddle's."""
        with Client(VSWITCH_REMOTE, read_only=True) as client:
            if integration_bridge(client) is None:
                return planned(OPEN_VSWITCH, self.port_rows)
            found = _rows(client, OPEN_VSWITCH, self.port_rows, self.workload_owner, vswitch.TABLES)
            others = _unexplained_ports(client)
        return Outcome(found.changes, tuple(one for one in found.foreign if one.identity in others))

    def _gateway(self) -> Outcome:
        """Flows and kernel state: management ports, VRFs, routes, rules, nftables tables."""
        # Without the database the engines would count everything as missing, as they do on an empty host.
        with Client(VSWITCH_REMOTE, read_only=True):
            return apply_gateway(NodeContext(self.node, "", write=False, record=self.record), self.plan)

    def _endpoints(self) -> Outcome:
        if kernel.PYROUTE2_IMPORT_ERROR is not None:
            raise UserError("pyroute2 is missing on this host; run heddle.ovn.install")
        userspace = False
        if has_ovn(self.plan):
            with Client(VSWITCH_REMOTE, read_only=True) as client:
                userspace = uses_userspace(client)
        found = reconcile_endpoints(
            self.endpoints, owner=self.workload_owner, userspace=userspace, write=False,
            close_ports=functools.partial(close_stale_ports, write=False),
        )  # fmt: skip
        found += apply_routed_workloads(NodeContext(self.node, "", write=False), self.plan)
        found += apply_egress(self.plan, self.node, self.workload_owner, write=False)
        return found + Outcome(foreign=tuple(self._foreign_namespaces()))

    def _virtual_machines(self) -> Outcome:
        """Virtual machines and their tap devices."""
        if kernel.PYROUTE2_IMPORT_ERROR is not None:
            raise UserError("pyroute2 is missing on this host; run heddle.ovn.install")
        with Client(VSWITCH_REMOTE, read_only=True) as client:
            userspace = uses_userspace(client)
        return compared_virtual_machines(self.plan, self.node, userspace=userspace)

    def _foreign_namespaces(self) -> list[Foreign]:
        names = foreign_namespaces(self.workload_owner)
        return [Foreign("kernel", "network namespace", name, name) for name in names]


def _ports_of_bridges() -> dict[str, dict[str, str]]:
    """Return the OpenFlow ports of each bridge by name; nothing when the database does not answer."""
    with contextlib.suppress(*KNOWN_ERRORS, OSError), Client(VSWITCH_REMOTE, read_only=True) as client:
        return Switch(client).ports()
    return {}


def _rows(client: Client, database: str, rows: list, owner: str, tables: tuple[str, ...]) -> Outcome:
    scope = Scope(tables=frozenset(tables))
    return reconcile(client, database, rows, owner=owner, scope=scope, write=False, report_foreign=True)


def _unexplained_ports(client: Client) -> set[str]:
    """Return the uuids of ports of the integration bridge that ovn-controller did not make."""
    where = [["name", "==", INTEGRATION_BRIDGE]]
    answers = client.transact(
        OPEN_VSWITCH,
        [
            {"op": "select", "table": "Bridge", "where": where, "columns": ["ports"]},
            {"op": "select", "table": "Port", "where": [], "columns": ["_uuid", "name", "external_ids"]},
        ],
    )
    on_bridge = {uuid for row in answers[0]["rows"] for uuid in uuids(row["ports"])}
    return {
        row["_uuid"][1]
        for row in answers[1]["rows"]
        if row["_uuid"][1] in on_bridge
        and row["name"] != INTEGRATION_BRIDGE
        and not any(key.startswith("ovn-") for key in map_pairs(row["external_ids"]))
    }
