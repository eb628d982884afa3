# SPDX-License-Identifier: Apache-2.0
"""What the roles install is what an uninstallation removes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.heddle.ovn.plugins.module_utils.common.files.service_files import full_name
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.footprint import (
    FOOTPRINTS,
    LIBRARY,
    STATE_DATABASE,
    SYSTEMD,
)
from ansible_collections.heddle.ovn.plugins.module_utils.uninstall.removal import SERVICES

ROLES = Path(__file__).resolve().parents[3] / "roles"
ROLES_OF = {
    "node": ("chassis", "host"),
    "state": ("state",),
    "hypervisor": ("hypervisor",),
    "bird": ("bird",),
    "metrics": ("metrics",),
    "mesh": ("mesh",),
    "probes": ("probes",),
    "dns_names": ("dns_names",),
    "underlay": ("underlay",),
}


def tasks(kind: str) -> str:
    return "".join((ROLES / role / "tasks" / "main.yml").read_text() for role in ROLES_OF[kind])


@pytest.mark.parametrize("kind", FOOTPRINTS)
def test_files_that_tasks_write_are_removed(kind):
    own = FOOTPRINTS[kind].own
    written = re.findall(r"^\s+(?:dest|path): \"?(/[^\s\"]+)", tasks(kind), re.MULTILINE)
    left = [path for path in written if path not in own and not path.startswith((f"{LIBRARY}/", STATE_DATABASE))]
    assert not left


def test_files_of_the_role_host_are_removed():
    text = (ROLES / "host" / "vars" / "main.yml").read_text()
    variables = yaml.safe_load(text)
    named = set(re.findall(r"(?:__host_systemd ~ '|\{\{ __host_systemd \}\})(/[^'\"]+)", text)) - {"/"}
    paths = {f"/etc/systemd/system{name}" for name in named if name.endswith((".conf", ".service"))}
    paths |= {f"/etc/systemd/system/{daemon}.service.d/heddle-running.conf" for daemon in variables["__host_daemons"]}
    paths.add("/etc/systemd/networkd.conf.d/heddle.conf")
    assert paths <= set(FOOTPRINTS["node"].own)


@pytest.mark.parametrize("kind", FOOTPRINTS)
def test_users_that_tasks_create_are_removed(kind):
    made = re.findall(r"ansible\.builtin\.user:\n\s+name: (\S+)", tasks(kind).replace('"{{ state_user }}"', "heddle"))
    assert set(made) == set(FOOTPRINTS[kind].users)


@pytest.mark.parametrize("kind", FOOTPRINTS)
def test_role_records_before_its_first_change(kind):
    first = yaml.safe_load((ROLES / ROLES_OF[kind][0] / "tasks" / "main.yml").read_text())[0]
    assert first["heddle.ovn.host_record"]["role"] == kind


def test_all_services_are_stopped_before_their_files_go():
    """One that runs on may write again what was removed; that of the state is stopped with its database."""
    units = {path.rpartition("/")[2] for found in FOOTPRINTS.values() for path in found.own if path.startswith(SYSTEMD)}
    there = {name for name in units if "@" not in name and name.endswith((".service", ".timer", ".socket"))}
    assert there - {"heddle-state.service"} == set(map(full_name, SERVICES))
