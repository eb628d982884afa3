# SPDX-License-Identifier: Apache-2.0
"""Checks what prevents a host from following any plan: stopped daemons, a changed chassis id."""

from __future__ import annotations

from pathlib import Path

from .chassis import chassis_id
from .module_runner import VSWITCH

# Files with the process ids of daemons (ovn-ctl(8), ovs-ctl(8)): file below /run, process, unit of Debian's packages.
DAEMONS = (
    ("openvswitch/ovsdb-server.pid", "ovsdb-server", "ovsdb-server"),
    ("openvswitch/ovs-vswitchd.pid", "ovs-vswitchd", "ovs-vswitchd"),
    ("ovn/ovnnb_db.pid", "ovsdb-server", "ovn-ovsdb-server-nb"),
    ("ovn/ovnsb_db.pid", "ovsdb-server", "ovn-ovsdb-server-sb"),
    ("ovn/ovn-northd.pid", "ovn-northd", "ovn-northd"),
    ("ovn/ovn-controller.pid", "ovn-controller", "ovn-controller"),
)


def stopped_daemons(run: Path = Path("/run"), proc: Path = Path("/proc")) -> list[str]:
    """Return a line with the remedy for each daemon of this host that does not run."""
    return [
        f"{unit} does not run: systemctl start {unit} (its log: journalctl -u {unit})"
        for file, process, unit in DAEMONS
        if not _runs(run / file, process, proc)
    ]


def _runs(file: Path, process: str, proc: Path) -> bool:
    try:
        number = int(file.read_text(encoding="utf-8"))
        # The process id may have been reused.
        return (proc / str(number) / "comm").read_text(encoding="utf-8").strip() == process[:15]
    except (OSError, ValueError):
        return False


def other_chassis(node: str, plan: dict, remote: str = VSWITCH) -> list[str]:
    """Return a line with the remedy when Open vSwitch has another system-id than the plan.

    It is a new one when /etc/openvswitch/system-id.conf was lost. Raises OvsdbError when the database does not answer.
    """
    planned, found = plan["nodes"].get(node, {}).get("chassis"), chassis_id(remote)
    if not planned or found == planned:
        return []
    return [
        f"the system-id of Open vSwitch is {found or 'missing'}, in the plan it is {planned}: write the latter into "
        "/etc/openvswitch/system-id.conf and restart openvswitch-switch"
    ]
