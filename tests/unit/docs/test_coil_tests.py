# SPDX-License-Identifier: Apache-2.0
"""The tables of behaviours in the README of the tests name tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]


def test_named_tests_are_there():
    named = re.findall(r"`((?:unit|live|lab)/[^`]*)::(test_\w+)`", (TESTS / "README.md").read_text())
    assert len(named) > 50
    missing = [f"{path}::{name}" for path, name in named if f"def {name}(" not in (TESTS / path).read_text()]
    assert not missing
