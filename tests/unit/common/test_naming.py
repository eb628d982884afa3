# SPDX-License-Identifier: Apache-2.0
"""Names of OVN objects, compared with those that the design documents print."""

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common import naming

TENANT = naming.namespaced_network("test12", "namespace-scoped")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (naming.layer2_switch(TENANT), "test12_namespace.scoped_ovn_layer2_switch"),
        (naming.transit_router(TENANT), "test12_namespace.scoped_transit_router"),
        (naming.gateway_router(TENANT, "ovn-worker"), "GR_test12_namespace.scoped_ovn-worker"),
        (naming.cluster_router(naming.cluster_network("my-net")), "cluster_udn_my.net_ovn_cluster_router"),
        (naming.cluster_router("default"), "ovn_cluster_router"),
        (naming.transit_switch_port("default", "n1"), "tstor-n1"),
        (naming.transit_router_port(TENANT, "n1"), "test12_namespace.scoped_rtots-n1"),
        (naming.workload_port("red", "pod"), "red_pod"),
        (naming.workload_port("red", "pod", "red/my-net"), "red.my.net_red_pod"),
        (naming.management_port("default", "n1"), "k8s-n1"),
    ],
)
def test_names(name, expected):
    assert name == expected


def test_fnv1a_matches_its_published_vector():
    assert naming.fnv1a_64("") == 0xCBF29CE484222325
    assert naming.fnv1a_64("a") == 0xAF63DC4C8601EC8C


def test_host_interfaces_fit_the_kernel_and_differ():
    ports = [f"red_{number}" for number in range(2000)]
    names = {naming.host_interface(port, "_h") for port in ports}
    assert len(names) == len(ports)
    assert {len(name) for name in names} == {15}
