# SPDX-License-Identifier: Apache-2.0
"""Interpretation of unquoted YAML scalars.

Only JSON's types are returned: text, integers, finite numbers, booleans and null. Dates stay text. Spellings on which
YAML versions disagree about a number (``010``, ``1_000``, ``1:30``) stay text too, so that an integer field rejects
them instead of guessing.
"""

from __future__ import annotations

import math
import re

_NULLS = frozenset(["", "~", "null", "Null", "NULL"])
# Kubernetes reads YAML 1.1 booleans, hence yes and on.
_TRUE = frozenset(["true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"])
_FALSE = frozenset(["false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"])
# At most 18 digits, so that every integer fits the 64 bits of an OVSDB integer.
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[-+]?[0-9]{1,18}(\.[0-9]{0,18})?([eE][-+]?[0-9]{1,3})?")


def plain_value(text: str):
    """The value of an unquoted scalar."""
    if text in _NULLS:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and ("." in text or "e" in text.lower()):
        number = float(text)
        return number if math.isfinite(number) else text
    return text
