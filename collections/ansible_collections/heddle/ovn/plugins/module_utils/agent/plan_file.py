# SPDX-License-Identifier: Apache-2.0
"""Files on a host: its part of the plan, and the arguments of the chassis module."""

from __future__ import annotations

import json
import os

from ..common.change import Change, Outcome
from ..common.files.atomic_file import replace_file
from ..common.plan_digest import plan_digest
from ..common.serialization import canonical
from .module_runner import PlanTooNew, UserError, read_plan_file


def is_whole(plan: dict) -> bool:
    """Return whether a stored plan is as it was written: one that was edited has another digest."""
    return plan_digest(plan) == plan["digest"]


def keep_plan(plan: dict, path: str, *, write: bool, kept: dict | None = None) -> Outcome:
    """Write the given plan to the file.

    Only the digest decides: a plan with equal content is not written again. The file is replaced atomically. `kept` is
    the plan in the file, where it was read already.
    """
    try:
        kept = kept or read_plan_file(path)
    except PlanTooNew:
        raise
    except UserError:
        kept = {}
    refuse_older(plan, kept, path)
    if kept.get("digest") == plan["digest"] and is_whole(kept):
        return Outcome()
    if write:
        write_file(path, _lines(plan))
    before, after = _counts(kept), _counts(plan)
    return Outcome((Change("file", "update" if kept else "create", "plan", path, "", before, after),))


def refuse_older(plan: dict, kept: dict, path: str) -> None:
    """Raise UserError where the plan that is `kept` in the file is of a later revision of the same deployment."""
    if kept.get("deployment") == plan["deployment"] and kept.get("revision", 0) > plan["revision"]:
        raise UserError(
            f"{path} is newer (revision {kept['revision']}) than this plan (revision {plan['revision']}): "
            "manifests were applied concurrently, or a backup of the state was restored while this host did not "
            "answer; run heddle.ovn.networks, whose plan is newer than those of all hosts that answer"
        )


def kept_plan(path: str) -> dict | None:
    """Return `deployment` and `revision` of the plan in the file; None where there is none that can be read."""
    try:
        kept = read_plan_file(path)
    except UserError:
        return None
    return {"deployment": kept["deployment"], "revision": kept["revision"]}


def keep_host(host: dict, path: str, *, write: bool) -> Outcome:
    """Write the file with which `heddle-host` repeats the chassis module."""
    try:
        with open(path, encoding="utf-8") as text:
            kept = json.load(text)
    except (OSError, ValueError):
        kept = {}
    if kept == host:
        return Outcome()
    if not isinstance(kept, dict):
        kept = {}
    if write:
        write_file(path, json.dumps(host, indent=1, sort_keys=True) + "\n")
    return Outcome((Change("file", "update" if kept else "create", "host", path, "", kept, host),))


def _counts(plan: dict) -> dict:
    if not plan:
        return {}
    return {"digest": plan["digest"], **{part: len(plan[part]) for part in ("nodes", "networks", "workloads")}}


def _lines(plan: dict) -> str:
    """Return the plan as JSON with a line for each entry of a part, such as a network or a workload.

    Fully indented, that takes several times as long and as much memory.
    """
    parts = []
    for part, content in sorted(plan.items()):
        if isinstance(content, dict) and content:
            entries = ",\n".join(f"  {json.dumps(name)}: {canonical(entry)}" for name, entry in sorted(content.items()))
            parts.append(f" {json.dumps(part)}: {{\n{entries}\n }}")
        else:
            parts.append(f" {json.dumps(part)}: {canonical(content)}")
    return "\n".join(["{", ",\n".join(parts), "}\n"])


def write_file(path: str, text: str) -> None:
    """Write a file in one step; UserError when that is not possible, and the file stays as it is."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        replace_file(path, text, mode=0o644, single_writer=True)
    except OSError as error:
        raise UserError(f"{path} cannot be written and stays as it is: {error.strerror}") from error
