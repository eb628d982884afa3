# SPDX-License-Identifier: Apache-2.0
"""Figures, as ratios against something measured in the same run; `python -m tests.bench --help`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections")]
