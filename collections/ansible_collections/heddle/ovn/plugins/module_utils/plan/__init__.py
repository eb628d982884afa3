# SPDX-License-Identifier: Apache-2.0
"""The plan: one document with all decisions, for all hosts."""

from __future__ import annotations

from .builder import build_plan

__all__ = ["build_plan"]
