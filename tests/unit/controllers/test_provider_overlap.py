# SPDX-License-Identifier: Apache-2.0
"""Networks whose subnets are those of the provider network or of the underlay."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import condition
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import render_host_network
from tests.pipeline import layer2, namespace, stored, with_gateways


@pytest.mark.parametrize("subnet", ["192.0.2.0/24", "192.0.0.0/16", "192.0.2.128/25", "198.18.1.0/24", "198.18.2.0/23"])
def test_overlap_with_provider_network_is_reported(subnet):
    """Its workloads would not reach the provider network, and replies to them would leave to it."""
    hosts = with_gateways("shared")
    after = stored(namespace("red") + layer2("red", "net", subnet), hosts=hosts)
    created = condition(after.objects["UserDefinedNetwork/red/net"], "NetworkCreated")
    assert created["status"] == "False"
    assert "overlaps" in created["message"]
    assert "node1" in created["message"]
    assert "red_net" not in build_plan(after)["networks"]
    secondary = layer2("red", "net", subnet).replace("Primary", "Secondary")
    after = stored(namespace("red", primary=False) + secondary, hosts=hosts)
    assert condition(after.objects["UserDefinedNetwork/red/net"], "NetworkCreated")["status"] == "True"


def test_applied_network_stays_when_the_provider_network_overlaps_later():
    text = namespace("red") + layer2("red", "net", "192.0.2.0/24")
    before = stored(text)
    more = namespace("blue") + layer2("blue", "net", "10.2.0.0/24")
    after = stored(text + more, before, hosts=with_gateways("shared"))
    created = condition(after.objects["UserDefinedNetwork/red/net"], "NetworkCreated")
    assert created["status"] == "False"
    assert "192.0.2.0/24 with the provider network of node node1" in created["message"]
    plan = build_plan(after)
    assert {"red_net", "blue_net"} <= set(plan["networks"])
    routes = render_host_network(plan, "node1").routes
    assert not [one for one in routes if one.to == "192.0.2.0/24" and one.network == "red_net"]
