# SPDX-License-Identifier: Apache-2.0
"""How many packets a second ovn-controller takes, of each protocol."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.pipeline import EVERYWHERE, layer2, namespace, plan_of, with_gateways


@pytest.mark.parametrize(("networks", "rate"), [(0, 25), (4, 125), (9, 250), (60, 250), (99, 400), (100, 425)])
def test_limit_of_arp_grows_with_the_gateway_routers(networks, rate):
    """The default network has one besides."""
    names = [f"t{number}" for number in range(networks)]
    text = "".join(namespace(name) + layer2(name, "net", "10.50.0.0/24") for name in names)
    rows = render_northbound(plan_of(text, hosts=with_gateways("shared"), settings=EVERYWHERE), "node1")
    rates = {row.key: row.columns["rate"] for row in rows if row.table == "Meter_Band"}
    assert rates.pop("arp-rate-limiter") == rate
    assert set(rates.values()) == {25}
