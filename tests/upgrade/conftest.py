# SPDX-License-Identifier: Apache-2.0
"""A lab whose cluster began with the old Layer2 topology."""

from __future__ import annotations

from tests.lab.conftest import lab

__all__ = ["lab"]
