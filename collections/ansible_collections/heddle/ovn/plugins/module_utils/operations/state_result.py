# SPDX-License-Identifier: Apache-2.0
"""Result of the module `resource_info`: the content of the state database."""

from __future__ import annotations

from ..agent.module_runner import Request
from ..agent.state_connection import state_database
from ..store.database import read
from .status_view import state_view


def resource_info_result(request: Request) -> dict:
    """Read the state database."""
    with state_database(request, write=False, required=True) as client:
        snapshot = read(client)
    return {"changed": False, **state_view(snapshot)}
