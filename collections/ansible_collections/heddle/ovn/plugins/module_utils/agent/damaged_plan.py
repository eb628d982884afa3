# SPDX-License-Identifier: Apache-2.0
"""Whether an error may come from the plan's file: content that was edited, or damaged and still is JSON.

Only what fails looks: the digest of a large plan takes longer than most runs.
"""

from __future__ import annotations

from ..common.files.json_file import read_json
from ..common.plan_digest import plan_digest

# What malformed content raises where it is used; so do defects of Heddle.
MALFORMED = (ValueError, LookupError, TypeError, AttributeError)


def damage(path: str, error: Exception) -> str:
    """Return what is wrong with the plan in a file, with the remedy; "" where it is as it was written.

    `error` is what using it has raised.
    """
    plan = read_json(path)
    if not isinstance(plan, dict) or plan.get("digest") == plan_digest(plan):
        return ""
    return (
        f"{path} was edited or is damaged: its content has another digest than it says "
        f"({type(error).__name__}: {error}). Remove it and run heddle.ovn.networks, which writes it anew"
    )
