# SPDX-License-Identifier: Apache-2.0
"""The fields `sessionAffinity` and `sessionAffinityConfig` (Kubernetes, core/v1), which Service and Egress have."""

from __future__ import annotations

from ..node import Fields

CLIENT_IP, NONE = "ClientIP", "None"
# Seconds.
_DEFAULT_TIMEOUT, _LONGEST_TIMEOUT = 10800, 86400


def read_session_affinity(fields: Fields, default: str) -> int:
    """Return the seconds for which a client stays with what it reached first, 0 for none."""
    field, config = fields.get("sessionAffinity"), fields.get("sessionAffinityConfig")
    chosen = field.choice((CLIENT_IP, NONE)) if field and field.value != "" else default
    if chosen != CLIENT_IP:
        if config and chosen:
            config.refuse("Forbidden: must not be set when session affinity is None", "set sessionAffinity to ClientIP")
        return 0
    client = config.mapping(("clientIP",)).get("clientIP") if config else None
    timeout = client.mapping(("timeoutSeconds",)).get("timeoutSeconds") if client else None
    if timeout is None:
        return _DEFAULT_TIMEOUT
    value = timeout.value
    if isinstance(value, int) and not isinstance(value, bool) and not 0 < value <= _LONGEST_TIMEOUT:
        timeout.refuse(f"Invalid value: {value}: must be greater than 0 and less than {_LONGEST_TIMEOUT}")
        return 0
    return timeout.integer(1, _LONGEST_TIMEOUT) or 0
