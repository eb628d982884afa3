# SPDX-License-Identifier: Apache-2.0
"""The lab's settings are those of each test, and not those of who runs it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _default_memory(monkeypatch):
    monkeypatch.delenv("LAB_MEMORY_MB", raising=False)
