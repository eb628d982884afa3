# SPDX-License-Identifier: Apache-2.0
"""The plan: one document, the same for every host, with all that a host needs to know."""

from __future__ import annotations

from .builder import FORMAT, build_plan

__all__ = ["FORMAT", "build_plan"]
