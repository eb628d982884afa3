# SPDX-License-Identifier: Apache-2.0
"""How many of several may be down at a time (Kubernetes, policy/v1, PodDisruptionBudget)."""

from __future__ import annotations

import re

from ..node import Node
from ..problem import show

_FIELDS = ("minAvailable", "maxUnavailable")
_PERCENT = re.compile(r"[0-9]+%")
_NO_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_LARGEST = 2**31 - 1


def read_disruption_budget(node: Node | None) -> dict | None:
    """Return `{"minAvailable": ...}` or `{"maxUnavailable": ...}`, a number or a text such as "50%"; None for none."""
    if node is None:
        return None
    fields = node.mapping(_FIELDS)
    given = {name: field for name in _FIELDS if (field := fields.get(name))}
    if len(given) == len(_FIELDS):
        node.refuse("Invalid value: minAvailable and maxUnavailable cannot be both set", "remove one of them")
    found = {name: _number_or_percent(field) for name, field in given.items()}
    return found or None


def _number_or_percent(node: Node) -> int | str | None:
    value = node.value
    if not isinstance(value, str):
        if isinstance(value, int) and not isinstance(value, bool) and value < 0:
            node.refuse(f"Invalid value: {value}: must be greater than or equal to 0")
            return None
        return node.integer(0, _LARGEST)
    if not _PERCENT.fullmatch(value):
        node.refuse(f"Invalid value: {show(value)}: {_NO_PERCENT}")
        return None
    if int(value[:-1]) > 100:
        node.refuse(f"Invalid value: {show(value)}: must not be greater than 100%")
        return None
    return value
