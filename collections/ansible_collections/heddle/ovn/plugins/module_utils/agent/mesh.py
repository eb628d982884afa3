# SPDX-License-Identifier: Apache-2.0
"""The verbs `heddle-host mesh run` and `heddle-host mesh status`."""

from __future__ import annotations

import functools
import json
import os
import sys

from ..common.change import Change, Outcome
from ..mesh_daemon.esp import lacking, own_entries, remove_all
from ..mesh_daemon.status_client import ask, state_or_none
from ..mesh_daemon.status_text import is_well, text_of
from ..netlink.kernel_modules import datapath_type
from ..render.host.mesh import mesh_networks
from .module_runner import PLAN_FILE, UserError, read_plan_file
from .service.components import read_host
from .service.service import say


def run_mesh() -> None:
    """Run the daemon until the plan has no MeshNetwork."""
    # Imported here, since other verbs need neither asyncio nor os-ken.
    from ..mesh_daemon.service import REKEY_SECONDS, host_paths, run
    from ..mesh_daemon.switch import is_available

    if not is_available():
        raise UserError("python3-os-ken is missing on this host; run heddle.ovn.networks")
    rekey_seconds = int(os.environ.get("HEDDLE_MESH_REKEY_SECONDS", REKEY_SECONDS))
    host = read_host()
    no_esp = functools.partial(_no_esp, host)
    run(PLAN_FILE, host["node"], read_plan_file, host_paths(), say, no_esp, rekey_seconds)


def remove_encryption(*, write: bool) -> Outcome:
    """Remove the policies and security associations of the mesh, which a daemon that was stopped has left."""
    found = own_entries()
    if write and found:
        remove_all()
    return Outcome(tuple(Change("kernel", "delete", "xfrm", one, "", {"entry": one}, {}) for one in found))


def _no_esp(host: dict, address: str) -> str:
    """Return why tunnels of this host cannot be encrypted; empty when they can."""
    chosen = host["chassis"]["datapath"]
    if (datapath_type() if chosen == "auto" else chosen) != "system":
        return "Open vSwitch forwards in user space here, past the ESP of the kernel"
    return lacking(address)


def mesh_state(plan: dict) -> dict:
    """Return the state of the running daemon; {} without a MeshNetwork in the plan, and where it does not answer."""
    return (state_or_none() if mesh_networks(plan) else None) or {}


def mesh_status(*, as_json: bool) -> bool:
    """Print the state of the running daemon; return whether all connections carry frames. OSError without a daemon."""
    state = ask()
    sys.stdout.write((json.dumps(state, indent=1) if as_json else text_of(state)) + "\n")
    return is_well(state)
