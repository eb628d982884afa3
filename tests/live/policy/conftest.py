# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of policies, and those of other folders that they use."""

from __future__ import annotations

import pytest

from tests.live.gateway.conftest import host
from tests.live.topology.zone import Zone
from tests.pipeline import with_gateways

__all__ = ["host"]


@pytest.fixture(name="zone")
def _zone(request, tools, northbound, southbound, northd):
    """Return a node with gateways and the MANIFESTS of the test's file, known as a chassis."""
    encap = {"type": "geneve", "ip": "198.18.1.11", "chassis_name": "chassis-of-node1"}
    southbound.transact(
        {"op": "insert", "table": "Encap", "uuid-name": "encap", "row": encap},
        {"op": "insert", "table": "Chassis", "row": {"name": "chassis-of-node1", "encaps": ["named-uuid", "encap"]}},
    )
    return Zone(tools, northbound, southbound, request.module.MANIFESTS, with_gateways("shared"))
