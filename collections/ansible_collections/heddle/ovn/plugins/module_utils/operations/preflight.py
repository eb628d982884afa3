# SPDX-License-Identifier: Apache-2.0
"""Offline validation: finds every mistake in manifests that is visible without a host.

What depends on the stored state (namespaces of other sets, existing networks, limits) is checked on the state
host, before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api import Problem, Source, packed, read_manifests
from ..controllers.admission.admission import check_alone
from ..store import settings as state_settings


def examine(
    files: list[tuple[str, str]], nodes: list[str], settings: dict, unread: Sequence[dict] = ()
) -> tuple[list[dict], list[str]]:
    """Return the packed resources of the files and all problems, one line each.

    `unread` are the problems of files that have no text, with `file`, `line`, `rule` and `remedy`.
    """
    if not files and not unread:
        return [], ["no manifest file was found; to remove everything, give a file without documents"]
    resources, problems = read_manifests(files)
    problems = [_of_file(**one) for one in unread] + problems
    messages = [str(problem) for problem in problems]
    try:
        state_settings.complete(settings)
    except ValueError as error:
        return [], [*messages, str(error)]
    if not problems:
        messages += [str(problem) for problem in check_alone(resources, nodes)]
    return [packed(resource) for resource in resources], messages


def _of_file(file: str, line: int, rule: str, remedy: str) -> Problem:
    return Problem(Source(file, 0, line), "", "", rule, remedy)
