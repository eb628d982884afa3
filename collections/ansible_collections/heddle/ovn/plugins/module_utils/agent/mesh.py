# SPDX-License-Identifier: Apache-2.0
"""The verbs `heddle-host mesh run` and `heddle-host mesh status`."""

from __future__ import annotations

import json
import sys

from ..mesh_daemon.asking import ask
from ..mesh_daemon.status_text import is_well, text_of
from .components import read_host
from .module_runner import PLAN_FILE, UserError, read_plan_file
from .service import say


def run_mesh() -> None:
    """Run the daemon until the plan has no MeshNetwork."""
    # os-ken is on hosts with a MeshNetwork only.
    try:
        from ..mesh_daemon.service import host_paths, run
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is missing on this host; run heddle.ovn.networks") from error
    run(PLAN_FILE, read_host()["node"], read_plan_file, host_paths(), say)


def mesh_status(*, as_json: bool) -> bool:
    """Print the state of the running daemon; return whether all connections carry frames. OSError without a daemon."""
    state = ask()
    sys.stdout.write((json.dumps(state, indent=1) if as_json else text_of(state)) + "\n")
    return is_well(state)
