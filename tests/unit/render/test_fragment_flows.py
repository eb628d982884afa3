# SPDX-License-Identifier: Apache-2.0
"""Fragments from the provider network are put together before their ports are matched."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from tests.pipeline import namespace, plan_of, with_gateways, workload

SERVICE = """---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: red}
spec: {type: NodePort, selector: {app: web}, ipFamilyPolicy: RequireDualStack, ports: [{protocol: UDP, port: 53}]}
"""


@pytest.mark.parametrize("mode", ["shared", "local"])
@pytest.mark.parametrize("ip", ["ip", "ipv6"])
def test_fragments_are_put_together_in_both_gateway_modes(mode, ip):
    text = namespace("red", primary=False) + workload("red", "a", "node1") + SERVICE
    flows = render_bridge_flows(plan_of(text, hosts=with_gateways(mode)), "node1")
    [found] = [one for one in flows if f"{ip},nw_frag=yes" in one.match]
    assert (found.table, found.priority) == (0, 110)
    assert found.match == f"in_port={{eth1}},{ip},nw_frag=yes,ct_state=-trk"
    # Before all that matches ports of what comes in from the uplink, but for the tunnels of the underlay (200).
    ported = [one for one in flows if one.table == 0 and "in_port={eth1}" in one.match and "tp_dst=" in one.match]
    assert ported
    assert all(one.priority < found.priority for one in ported)
