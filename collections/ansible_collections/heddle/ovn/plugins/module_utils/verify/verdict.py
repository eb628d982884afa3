# SPDX-License-Identifier: Apache-2.0
"""What may come of a packet, and the symbol of each in tables; the worst comes first. Pure."""

from __future__ import annotations

REACHED, ISOLATED, FAILED, NOT_TESTED = "reached", "isolated", "failed", "not tested"
SYMBOLS = {FAILED: "!", NOT_TESTED: "?", REACHED: "+", ISOLATED: "."}
