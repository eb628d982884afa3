# SPDX-License-Identifier: Apache-2.0
"""ClusterUserDefinedNetwork: one network for all selected namespaces (OKEP-5193, "Cluster scoped CRD")."""

from __future__ import annotations

from ..kind import Kind
from ..networks.network import LAYER2, LAYER3, LOCALNET
from ..networks.network_forms import read_network
from ..networks.network_transport import check_uplinks, read_uplinks
from ..node import Fields, Node
from ..selector import read_selector


def _read_spec(node: Node) -> dict | None:
    if node.value is None:
        node.refuse("Required value", "add it with namespaceSelector and network")
        return None
    fields = node.mapping(("namespaceSelector", "network", "template", "uplinks"))
    selector = read_selector(fields.require("namespaceSelector", "select namespaces by their labels, {} selects all"))
    uplinks = read_uplinks(fields)
    network_node = _network_node(fields)
    flat_too = fields.get("template") is not None
    network = read_network(network_node, (LAYER2, LAYER3, LOCALNET), flat_too) if network_node else None
    if network is None:
        return None
    check_uplinks(fields, network)
    return {**network, "uplinks": uplinks, "namespaceSelector": selector}


def _network_node(fields: Fields) -> Node | None:
    """The network stands in ``network`` today, in ``template`` (in its type even in ``template.spec``) in OKEP-5193."""
    template = fields.get("template")
    if template is None:
        return fields.require("network", "add it with the fields of the network")
    if fields.get("network"):
        template.refuse("must be unset when network is set", "remove one of them")
    if isinstance(template.value, dict) and set(template.value) == {"spec"}:
        return template.mapping(("spec",)).require("spec", "add it with the fields of the network")
    return template


KIND = Kind(
    name="ClusterUserDefinedNetwork",
    api_versions=("k8s.ovn.org/v1", "k8s.ovn.org/v1alpha1"),
    # OKEP-5193's own examples have none.
    api_version_required=False,
    namespaced=False,
    read_spec=_read_spec,
)
