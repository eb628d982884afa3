# SPDX-License-Identifier: Apache-2.0
"""The result of the module `host_record`."""

from __future__ import annotations

from ..agent.module_runner import Request, result
from .record import keep_record


def record_result(request: Request) -> dict:
    """Record what a role is about to change."""
    params = request.params
    outcome = keep_record(params["role"], params["packages"], params["interfaces"], write=not request.check_mode)
    return result(outcome, diff=request.diff)
