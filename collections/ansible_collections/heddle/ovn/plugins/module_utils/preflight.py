# SPDX-License-Identifier: Apache-2.0
"""Everything that can be wrong with manifests and is visible without a host."""

from __future__ import annotations

from .decide import packed
from .model import read_manifests
from .state import settings as state_settings
from .state.admission import admit
from .state.snapshot import Snapshot


def examine(files: list[tuple[str, str]], nodes: list[str], settings: dict) -> tuple[list[dict], list[str]]:
    """Return the packed resources of the files and all problems, one line each.

    The manifests are admitted into an empty state, which finds every conflict among themselves.
    """
    if not files:
        return [], ["no manifest file was found; when nothing is wanted, give a file without documents"]
    resources, problems = read_manifests(files)
    messages = [str(problem) for problem in problems]
    try:
        complete = state_settings.complete(settings)
    except ValueError as error:
        return [], [*messages, str(error)]
    if not problems:
        known = {name: {} for name in nodes}
        _snapshot, conflicts = admit(Snapshot(), resources, known, settings=complete, manifest_set="")
        messages += [str(problem) for problem in conflicts]
    return [packed(resource) for resource in resources], messages
