# SPDX-License-Identifier: Apache-2.0
"""The state database on its own."""

from __future__ import annotations

from pathlib import Path

import pytest

SCHEMA = Path(__file__).resolve().parents[3] / "roles" / "state" / "files" / "heddle.ovsschema"


@pytest.fixture
def database(serve):
    """An empty state database."""
    return serve("Heddle", SCHEMA)
