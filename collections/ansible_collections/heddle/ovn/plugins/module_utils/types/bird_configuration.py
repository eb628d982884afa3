# SPDX-License-Identifier: Apache-2.0
"""Data class of the routing daemon's configuration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Configuration:
    """Heddle's part of BIRD's configuration; `mark` is the description of one of its protocols."""

    text: str
    mark: str
