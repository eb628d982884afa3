# SPDX-License-Identifier: Apache-2.0
"""Files on a host: its plan, and the arguments of the chassis module."""

from __future__ import annotations

import contextlib
import json
import os

from ..common.change import Change, Outcome
from ..common.serialization import digest
from .module_runner import UserError, read_plan_file


def keep_plan(plan: dict, path: str, *, write: bool) -> Outcome:
    """Write the given plan to the file.

    Only the digest decides: a plan with equal content is not written again. The file is replaced atomically.
    """
    try:
        kept = read_plan_file(path)
    except UserError:
        kept = {}
    if kept.get("deployment") == plan["deployment"] and kept.get("revision", 0) > plan["revision"]:
        raise UserError(
            f"{path} is newer (revision {kept['revision']}) than this plan (revision {plan['revision']}): "
            "manifests were applied concurrently, run the playbook again. "
            "If the state database was recreated, remove the file"
        )
    # A copy that was edited has a digest that does not match its content.
    content = {name: value for name, value in kept.items() if name not in ("digest", "revision")}
    if kept.get("digest") == plan["digest"] and digest(content) == kept["digest"]:
        return Outcome()
    if write:
        _replace(path, json.dumps(plan, indent=1, sort_keys=True) + "\n")
    before, after = _counts(kept), _counts(plan)
    return Outcome((Change("file", "update" if kept else "create", "plan", path, "", before, after),))


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
        _replace(path, json.dumps(host, indent=1, sort_keys=True) + "\n")
    return Outcome((Change("file", "update" if kept else "create", "host", path, "", kept, host),))


def _counts(plan: dict) -> dict:
    if not plan:
        return {}
    return {"digest": plan["digest"], **{part: len(plan[part]) for part in ("nodes", "networks", "workloads")}}


def _replace(path: str, text: str) -> None:
    # One name, since there is one writer: leftovers of an interrupted run are overwritten.
    temporary = f"{path}.new"
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o644)
            # Without fsync a power failure may leave an empty file, and the host would boot without its desired state.
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise UserError(f"{path} cannot be written and stays as it is: {error.strerror}") from error
