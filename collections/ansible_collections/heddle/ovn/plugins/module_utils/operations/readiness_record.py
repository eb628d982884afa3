# SPDX-License-Identifier: Apache-2.0
"""Result of the module `readiness`: what the hosts reported is recorded, and the state as text for the operator."""

from __future__ import annotations

from ..agent.module_runner import Request
from ..agent.state_connection import state_database
from ..common.change import Outcome
from ..common.serialization import pack
from .admission_service import state_changes
from .readiness import record
from .status_files import status_files
from .status_text import status_table
from .status_view import changes_text, state_view


def readiness_result(request: Request) -> dict:
    """Record the readiness; return what changed, what needs attention, and the files of the report."""
    write = not request.check_mode
    hosts = request.params["hosts"]
    with state_database(request, write=write) as client:
        before, after = record(client, hosts, write=write)
    outcome, view = Outcome(state_changes(before, after)), state_view(after)
    return {
        "changed": outcome.changed,
        **({"diff": outcome.diff()} if request.diff else {}),
        "revision": after.revision,
        "changes": changes_text(before, after),
        "attention": status_table(view, hosts, summary=True),
        "files": pack(status_files(view, hosts)),
    }
