# SPDX-License-Identifier: Apache-2.0
"""Checks what prevents a host from following any plan: stopped daemons, a changed chassis id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from ...bird.control import BirdError, Control, NotRunning
from ...bird.reconcile import OWN
from ...common.databases import VSWITCH_REMOTE
from ...common.files.daemon_report import is_running
from ...common.plan_format import has_ovn
from ...dns_daemon.report import DNS_NAMES_REPORT
from ...mesh_daemon.status_client import state_or_none
from ...probe_daemon.report import READINESS_REPORT
from ...render.egress.firewall import has_dns_names
from ...render.host.mesh import mesh_networks
from ...render.services.readiness import has_probes
from ...underlay_daemon.watch import UNDERLAY_REPORT
from ..chassis.chassis import chassis_id
from .host_service import UNIT, stopped_host_service

# Files with the process ids of daemons (ovn-ctl(8), ovs-ctl(8)): file below /run, process, unit of Debian's packages.
DAEMONS = (
    ("openvswitch/ovsdb-server.pid", "ovsdb-server", "ovsdb-server"),
    ("openvswitch/ovs-vswitchd.pid", "ovs-vswitchd", "ovs-vswitchd"),
    ("ovn/ovnnb_db.pid", "ovsdb-server", "ovn-ovsdb-server-nb"),
    ("ovn/ovnsb_db.pid", "ovsdb-server", "ovn-ovsdb-server-sb"),
    ("ovn/ovn-northd.pid", "ovn-northd", "ovn-northd"),
    ("ovn/ovn-controller.pid", "ovn-controller", "ovn-controller"),
)


# Facts of the provider network that the host decides and not the inventory; without those that come and go with router
# advertisements.
_OWN_FACTS = ("addresses", "next_hops", "mac", "translated_ports")


def stopped_daemons(run: Path = Path("/run"), proc: Path = Path("/proc")) -> list[str]:
    """Return a line with the remedy for each daemon of this host that does not run."""
    return list(stopped_units(run, proc).values())


def stopped_of(plan: dict) -> dict[str, str]:
    """Return such lines for the daemons that a plan needs: those of OVN, and BIRD."""
    return {**(stopped_units() if has_ovn(plan) else {}), **stopped_bird(plan)}


def stopped_units(run: Path = Path("/run"), proc: Path = Path("/proc")) -> dict[str, str]:
    """Return the same lines by the name of the daemon's unit."""
    return {unit: _line(unit) for file, process, unit in DAEMONS if not _runs(run / file, process, proc)}


def stopped_bird(plan: dict) -> dict[str, str]:
    """Return such a line when the plan has address pools and BIRD does not answer."""
    if "coil" not in plan:
        return {}
    try:
        with Control():
            return {}
    except NotRunning:
        return {"bird": _line("bird")}


def routing(plan: dict) -> list[dict]:
    """Return the neighbours that this host routes blocks of pools with; none without pools, or without BIRD."""
    if "coil" not in plan:
        return []
    try:
        with Control() as control:
            return [asdict(one) for one in control.neighbours(OWN)]
    except BirdError:
        return []


def services_of(plan: dict) -> dict[str, Callable[[], bool]]:
    """Return the services of Heddle that a plan needs besides heddle-host: by unit a call, whether it runs."""
    known = {
        "heddle-mesh": (bool(mesh_networks(plan)), lambda: state_or_none() is not None),
        "heddle-probes": (has_probes(plan), partial(is_running, READINESS_REPORT)),
        "heddle-dns-names": (has_dns_names(plan), partial(is_running, DNS_NAMES_REPORT)),
        "heddle-underlay": (bool(plan.get("underlay_probes")), partial(is_running, UNDERLAY_REPORT)),
    }
    return {unit: runs for unit, (is_needed, runs) in known.items() if is_needed}


def needed_units(plan: dict) -> list[str]:
    """Return the units of the daemons that a host needs for a plan."""
    return [
        UNIT,
        *(unit for _file, _process, unit in (DAEMONS if has_ovn(plan) else ())),
        *["bird"] * ("coil" in plan),
        *services_of(plan),
    ]


def stopped_services(plan: dict) -> dict[str, str]:
    """Return such lines for the services of Heddle: heddle-host, which each host has, and those that a plan needs."""
    stopped = (unit for unit, runs in services_of(plan).items() if not runs())
    return {**stopped_host_service(), **{unit: _line(unit) for unit in stopped}}


def _line(unit: str) -> str:
    return f"{unit} does not run: systemctl start {unit} (its log: journalctl -u {unit})"


def _runs(file: Path, process: str, proc: Path) -> bool:
    try:
        number = int(file.read_text(encoding="utf-8"))
        # The process id may have been reused.
        return (proc / str(number) / "comm").read_text(encoding="utf-8").strip() == process[:15]
    except (OSError, ValueError):
        return False


def other_chassis(node: str, plan: dict, remote: str = VSWITCH_REMOTE) -> list[str]:
    """Return a line with the remedy when Open vSwitch has another system-id than the plan.

    It is a new one when /etc/openvswitch/system-id.conf was lost. Raises OvsdbError when the database does not answer.
    """
    planned = plan["nodes"].get(node, {}).get("chassis")
    if not planned or (found := chassis_id(remote)) == planned:
        return []
    return [
        f"the system-id of Open vSwitch is {found or 'missing'}, in the plan it is {planned}: heddle-host apply "
        "restores it, in /etc/openvswitch/system-id.conf as well"
    ]


def other_facts(node: str, found: dict | None, plan: dict) -> list[str]:
    """Return a line with the remedy for each fact of the node's provider network that is another one in the plan.

    `found` is what the node reports now, as in `render/common/provider.py`. Rows and flows are made of the plan, on
    other nodes as well, so a new address of the node counts as an external host's until there is a new plan.
    """
    planned = plan.get("nodes", {}).get(node, {}).get("gateway") or {}
    return [
        f"provider network: {name} of this host: {_listed(found[name])}; in the plan: {_listed(planned[name])}. Run "
        "heddle.ovn.networks, which makes a plan of what hosts report"
        for name in _OWN_FACTS
        if name in planned and name in (found or {}) and planned[name] != found[name]
    ]


def _listed(value) -> str:
    return (", ".join(map(str, value)) if isinstance(value, list) else str(value)) or "none"
