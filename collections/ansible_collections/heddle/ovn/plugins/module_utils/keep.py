# SPDX-License-Identifier: Apache-2.0
"""The plan as a file on a host."""

from __future__ import annotations

import json
import os
import tempfile

from .document import unpack
from .runner import Failure


def keep_plan(document: str, path: str, *, write: bool) -> dict:
    """Bring the file to the given plan; returns the module's result.

    Only the digest decides: a plan that says the same is not written again. The file is replaced in one step.
    """
    try:
        plan = unpack(document)
    except ValueError as error:
        raise Failure(f"document: {error}") from error
    try:
        with open(path, encoding="utf-8") as text:
            kept = json.load(text)
    except (OSError, ValueError):
        kept = {}
    changed = kept.get("digest") != plan["digest"]
    if changed and write:
        _replace(path, json.dumps(plan, indent=1, sort_keys=True) + "\n")
    return {
        "changed": changed,
        "digest": plan["digest"],
        "revision": plan["revision"],
        "diff": {"before": _shown(kept), "after": _shown(plan) if changed else _shown(kept), "before_header": path},
    }


def _shown(plan: dict) -> str:
    if not plan:
        return ""
    counts = ", ".join(f"{len(plan[part])} {part}" for part in ("nodes", "networks", "workloads"))
    return f"plan {plan['digest']}: {counts}\n"


def _replace(path: str, text: str) -> None:
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o755, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".plan-")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o644)
    os.replace(temporary, path)
