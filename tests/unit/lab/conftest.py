# SPDX-License-Identifier: Apache-2.0
"""The lab's settings are those of each test, and not those of who runs it."""

from __future__ import annotations

import tempfile

import pytest

from lab import runtime


@pytest.fixture(autouse=True)
def _default_memory(monkeypatch):
    monkeypatch.delenv("LAB_MEMORY_MB", raising=False)


@pytest.fixture(autouse=True)
def _sockets_in_a_directory_of_the_test(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="heddle-") as base:
        monkeypatch.setattr(runtime, "BASES", (base,))
        yield
