# SPDX-License-Identifier: Apache-2.0
"""Decides what prevents an uninstallation unless it is forced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_SHOWN = 5
_FORCE = "-e heddle_uninstall_force=true removes them with the host's networks"


def blockers(
    node: str,
    *,
    workloads: Iterable[str] = (),
    virtual_machines: Iterable[str] = (),
    remaining: Iterable[str] = (),
    unsaved: bool = False,
    foreign_ports: Mapping[str, Iterable[str]] | None = None,
    foreign_bridges: Iterable[str] = (),
) -> list[str]:
    """Return one line for each reason, with the remedy.

    `workloads` are those of the plan on this host, `virtual_machines` those that run on it. `remaining` are the nodes
    that keep Heddle while this host, which has the state database, loses it. `unsaved` is a state database that would
    be removed and does not run, so that there is no backup of it. `foreign_ports` are ports of other software by the
    bridge of Heddle's that has them, `foreign_bridges` bridges of other software in an Open vSwitch that goes with
    Heddle.
    """
    found = []
    running = sorted(virtual_machines)
    if running:
        found.append(
            f"{node} runs {_counted(running, 'virtual machine')}: move them with heddle.ovn.migrate_workload, or "
            f"remove them from the manifests and run heddle.ovn.networks; {_FORCE}"
        )
    placed = sorted(workloads)
    if placed:
        found.append(
            f"{node} has {_counted(placed, 'workload')}: give them another node in the manifests, or remove them, and "
            f"run heddle.ovn.networks; {_FORCE}"
        )
    left = sorted(remaining)
    if left:
        found.append(
            f"{node} has the state database, and {', '.join(left)} would be left without one: uninstall all hosts "
            "together, or restore a backup of the state on another host first (heddle.ovn.state_backup, "
            "heddle.ovn.state_restore); -e heddle_uninstall_force=true removes it all the same"
        )
    if unsaved:
        found.append(
            f"{node}: the state database does not run, so it cannot be backed up: start it (systemctl start "
            "heddle-state), or keep it (-e heddle_uninstall_databases=keep); -e heddle_uninstall_force=true removes it "
            "without a backup"
        )
    for bridge, ports in sorted((foreign_ports or {}).items()):
        names = sorted(ports)
        found.append(
            f"{node}: the bridge {bridge} has {_counted(names, 'port')} that is not Heddle's: take it out (ovs-vsctl "
            f"del-port {bridge} {names[0]}); -e heddle_uninstall_force=true removes the bridge all the same"
        )
    others = sorted(foreign_bridges)
    if others:
        found.append(
            f"{node}: Open vSwitch came with Heddle and has {_counted(others, 'bridge')} that is not Heddle's: "
            f"remove it (ovs-vsctl del-br {others[0]}); -e heddle_uninstall_force=true removes Open vSwitch's database "
            "all the same"
        )
    return found


def _counted(names: list[str], what: str) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{len(names)} {what}{'' if len(names) == 1 else 's'} ({', '.join(names[:_SHOWN])}{more})"
