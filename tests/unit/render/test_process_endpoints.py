# SPDX-License-Identifier: Apache-2.0
"""Flows of the provider bridge to processes of the node, which are endpoints of Services or clients' targets."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.gateway.bridge_flows import render_bridge_flows
from tests.pipeline import EVERYWHERE, layer2, namespace, plan_of, with_gateways, with_nics

RED = namespace("red") + layer2("red", "net", "10.0.0.0/16", "fd00::/64")


def entered(address: str) -> str:
    """A Service with node ports whose endpoint is a process of node1."""
    return (
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: red}\n"
        "spec: {type: NodePort, externalIPs: ['2001:db8:77::1'], ipFamilyPolicy: RequireDualStack,\n"
        "  ports: [{port: 80}]}\n"
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
        "metadata: {name: web, namespace: red, labels: {kubernetes.io/service-name: web}}\n"
        f"addressType: IPv{6 if ':' in address else 4}\nports: [{{port: 8080}}]\n"
        f"endpoints: [{{addresses: ['{address}'], nodeName: node1}}]\n"
    )


def flows(hosts: dict, text: str = RED) -> list:
    return render_bridge_flows(plan_of(text, hosts=with_nics(hosts), settings=EVERYWHERE), "node1")


def test_no_flow_is_for_a_family_that_the_provider_bridge_has_no_address_of():
    facts = {"addresses": ["192.0.2.11/24"], "next_hops": ["192.0.2.1"]}
    found = flows(with_gateways("shared", **facts), RED + entered("2001:db8:3::b"))
    assert not [one for one in found if "None" in one.match + one.actions or "2001:db8:3::b" in one.match]


@pytest.mark.parametrize("address", ["203.0.113.11", "2001:db8:3::b", "198.18.1.11", "198.18.2.11"])
def test_the_default_network_leads_to_all_addresses_of_its_host(address):
    """Of other NICs, of tunnels, and of the inventory."""
    [found] = [one for one in flows(with_gateways("shared")) if one.match.endswith(f"_dst={address}") and not one.table
               and one.network == "default"]  # fmt: skip
    assert (found.priority, found.actions) == (500, "ct(commit,zone=64001,table=4)")
