# SPDX-License-Identifier: Apache-2.0
"""Reads files in which programs of a host leave their state for others."""

from __future__ import annotations

import json
from typing import Any


def read_json(path: str) -> Any:
    """Return the content of a file; None where it is missing, unreadable or damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None
