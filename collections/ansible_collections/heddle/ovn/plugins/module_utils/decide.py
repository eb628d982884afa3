# SPDX-License-Identifier: Apache-2.0
"""The arguments of a module and the stored state into the next state."""

from __future__ import annotations

from .apply.change import Change
from .document import unpack
from .model import Problem, unpacked
from .readiness import now, with_changes_unconfirmed
from .runner import STATE, Failure
from .state import settings as state_settings
from .state.admission import admit
from .state.apply_manifests import Overtaken, Rejected, store
from .state.database import differences
from .state.snapshot import Snapshot

STATE_ARGUMENTS = {
    "resources": {"type": "str", "required": True},
    "nodes": {"type": "dict", "required": True},
    "settings": {"type": "dict", "default": {}},
    "manifest_set": {"type": "str", "default": "default"},
    "deployment": {"type": "str", "default": "heddle"},
    "released": {"type": "list", "elements": "str", "default": []},
    "socket": {"type": "str", "default": STATE},
}


def next_state(params: dict, client, *, write: bool) -> tuple[Snapshot, Snapshot]:
    """Return the state before and after the module's arguments; with `write` the database has the latter.

    Raises Failure with all problems of the manifests, one a line.
    """
    moment = now()
    try:
        resources = [unpacked(data) for data in unpack(params["resources"])]
        settings = state_settings.complete(params["settings"])
    except ValueError as error:
        raise Failure(str(error)) from error

    def decide(before: Snapshot) -> tuple[Snapshot, list[Problem]]:
        after, problems = admit(
            before,
            resources,
            {name: node or {} for name, node in params["nodes"].items()},
            settings=settings,
            manifest_set=params["manifest_set"],
            name=params["deployment"],
            released=params["released"],
            now=moment,
        )
        return after if problems else with_changes_unconfirmed(before, after, moment), problems

    try:
        return store(client, decide, write=write)
    except Rejected as error:
        raise Failure(f"{len(error.problems)} problem(s), nothing was written:\n{error}") from error
    except Overtaken as error:
        raise Failure(str(error)) from error


def state_changes(before: Snapshot, after: Snapshot) -> tuple[Change, ...]:
    """Return what differs between two states as changes, for diff and report."""
    changes = []
    for entry in differences(before, after):
        old, new = (
            {"value": side} if isinstance(side, str) else side or {} for side in (entry["before"], entry["after"])
        )
        action = "update" if entry["before"] and entry["after"] else "create" if entry["after"] else "delete"
        changes.append(Change("state", action, entry["kind"], entry["name"], "", old, new))
    return tuple(changes)
