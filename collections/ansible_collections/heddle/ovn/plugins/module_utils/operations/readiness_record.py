# SPDX-License-Identifier: Apache-2.0
"""Result of the module `readiness`: what the hosts reported is recorded, and the state as text for the operator."""

from __future__ import annotations

from collections.abc import Sequence

from ..agent.module_runner import Request
from ..agent.state_connection import state_database
from ..common.change import Outcome
from ..common.serialization import pack
from ..plan.address_holders import moved_addresses
from ..store.snapshot import Snapshot
from .admission_service import state_changes
from .plans import Plans
from .readiness import pending, record
from .status_files import status_files
from .status_text import status_table
from .status_view import changes_text, state_view


def readiness_result(request: Request, plans: Plans | None = None, attention: Sequence[str] | None = None) -> dict:
    """Record the readiness; return what changed, what needs attention, and the files of the report.

    `attention` is what else needs it in this run, that of the request if left out.

    With `probes`, a plan that differs by them is returned as the module `resource` returns one. `overtaken`: the stored
    state makes another plan than `digest`, since another run has changed it in the meantime.
    """
    write, plans = not request.check_mode, plans or Plans()
    hosts = request.params["hosts"]
    with state_database(request, write=write) as client:
        before, after = record(client, hosts, request.params["probes"], write=write, plans=plans)
    outcome, view = Outcome(state_changes(before, after)), state_view(after, plans)
    admitted = request.params.get("digest")
    return {
        **_plan(before, after, plans, hosts),
        "changed": outcome.changed,
        **({"diff": outcome.diff()} if request.diff else {}),
        "overtaken": bool(admitted and before.revision) and plans.of(before)["digest"] != admitted,
        **({"digest": plans.of(after)["digest"]} if after.revision else {}),
        "revision": after.revision,
        "changes": changes_text(before, after),
        "attention": status_table(
            view, hosts, summary=True, more=request.params["attention"] if attention is None else attention
        ),
        "files": pack(status_files(view, hosts)),
    }


def _plan(before: Snapshot, after: Snapshot, plans: Plans, reports: dict[str, dict]) -> dict:
    if not after.revision:
        return {}
    old, new = plans.of(before), plans.of(after)
    if old["digest"] == new["digest"]:
        return {}
    moved = moved_addresses(old, new)
    waiting = pending(plans.of_hosts(after).digests, reports, moved)
    return {"moved_addresses": moved, "pending": waiting, **plans.documents(after, waiting, moved=bool(moved))}
