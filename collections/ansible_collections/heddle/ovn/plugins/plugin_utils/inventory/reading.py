# SPDX-License-Identifier: Apache-2.0
"""Reads an inventory through Ansible's variables, and templates what the check needs."""

from __future__ import annotations

import os

from ansible.errors import AnsibleError
from ansible.template import Templar

try:
    # Since ansible-core 2.19 each value has the file and line that it is from.
    from ansible._internal._datatag._tags import Origin
except ImportError:
    Origin = None

from .check import GROUPS, PREFIX
from .fleet import CONTROL, Fleet, Unreadable

# By these variables of Ansible two hosts are found to be one machine.
_CONNECTION = ("ansible_host", "ansible_port")


def read_fleet(task_vars: dict, loader, variables: dict[str, dict]) -> Fleet:
    """Return the hosts of Heddle's groups and the control node, with their variables.

    `task_vars` are those of a task, `loader` is its DataLoader, `variables` are the options of all variables.
    """
    hostvars = task_vars["hostvars"]
    groups = {name: list(hosts) for name, hosts in task_vars["groups"].items()}
    fleet = Fleet(groups, exists=lambda path: os.path.exists(os.path.expanduser(path)))
    common = [name for name, option in variables.items() if option["scope"] != "host"]
    of_hosts = {name: fleet.hosts(*option["groups"]) for name, option in variables.items() if "groups" in option}
    control = hostvars.raw_get(CONTROL)
    for host in fleet.hosts(*GROUPS, CONTROL):
        raw = control if host == CONTROL else hostvars.raw_get(host)
        fleet.names[host] = {name: _origin(name, raw[name]) for name in raw if name.startswith(PREFIX)}
        wanted = [name for name, hosts in of_hosts.items() if host in hosts]
        fleet.variables[host] = _templated(raw, [*wanted, *_CONNECTION], loader)
        for name in common:
            if raw.get(name) != control.get(name):
                fleet.differing.setdefault(name, []).append(host)
    # With the variables of the play, which an importing playbook may set.
    fleet.common.update(_templated(task_vars, common, loader))
    return fleet


def _templated(raw: dict, names: list[str], loader) -> dict:
    templar = Templar(loader=loader, variables=raw)
    return {name: _value(templar, raw[name]) for name in names if name in raw}


def _value(templar: Templar, raw):
    if isinstance(raw, bool | int) or raw is None:
        return raw
    try:
        return templar.template(raw)
    except AnsibleError as error:
        return Unreadable(str(error).partition("\n")[0].rstrip("."))


def _origin(name, value) -> str:
    """Return file and line of a value, relative to the working directory where that is shorter."""
    found = Origin and (Origin.get_tag(value) or Origin.get_tag(name))
    if not found:
        return ""
    if not found.path:
        return str(found).strip("<>")
    path = min(found.path, os.path.relpath(found.path), key=len)
    return f"{path}:{found.line_num}" if found.line_num else path
