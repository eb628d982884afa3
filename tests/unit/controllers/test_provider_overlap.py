# SPDX-License-Identifier: Apache-2.0
"""Networks whose subnets are those of the provider network or of the underlay."""

import ipaddress
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import overlapping
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.admission.overlaps import (
    ProviderNetworks,
    own_subnets,
)
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


def _subnets(bits: int, size: int, interface: bool):
    """Texts of subnets, or of interfaces within them, out of a range that is small enough for overlaps."""
    base = "10.0.0.0" if size == 32 else "fd00::"
    first = int(ipaddress.ip_address(base))
    numbers = st.integers(0, (1 << bits) - 1).map(lambda low: ipaddress.ip_address(first + low))
    texts = st.tuples(numbers, st.integers(size - bits, size)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    return texts if interface else texts.map(lambda text: str(ipaddress.ip_interface(text).network))


def _of_either(interface: bool):
    return st.lists(_subnets(8, 32, interface) | _subnets(8, 128, interface), max_size=8)


@given(reported=_of_either(interface=True), own=_of_either(interface=False))
def test_the_overlaps_are_those_that_a_comparison_of_all_pairs_finds(reported, own):
    nodes = [
        SimpleNamespace(name=f"node{number}", spec={"gateway": {"addresses": [address]}, "encap_ips": ["10.0.0.77"]})
        for number, address in enumerate(reported)
    ]
    cidrs = [{"cidr": cidr} for cidr in own]
    network = SimpleNamespace(is_default=False, role="Primary", subnets=cidrs, join_subnets=["fd00::80/121"])
    taken = dict.fromkeys(
        [*(str(ipaddress.ip_interface(one).network) for one in reported), *["10.0.0.77"][: len(nodes)]]
    )
    found = ProviderNetworks(nodes).overlaps(network)
    expected = [(subnet, other) for other in taken for subnet in own_subnets(network) if overlapping(subnet, other)]
    assert sorted({(line.split()[5], line.rpartition(", ")[2]) for line in found}) == sorted(set(expected))
