# SPDX-License-Identifier: Apache-2.0
"""Options of modules that decide about the state of the cluster."""

from __future__ import annotations


class ModuleDocFragment:
    """Options that define the state."""

    DOCUMENTATION = r"""
options:
  resources:
    description:
      - The manifests, as returned by the M(heddle.ovn.manifest) module in RV(heddle.ovn.manifest#module:document).
      - They are the complete O(manifest_set); stored objects of the set that they do not contain are removed.
    type: str
    required: true
  nodes:
    description:
      - The hosts, by name. Each is a dictionary with C(chassis) (system-id of Open vSwitch), C(encap_ips) (list of
        addresses of tunnel endpoints) and C(addresses) (list of the host's own addresses).
      - C(held_addresses) are those of EgressIPs and load balancers that the host has in fact; the state does not keep
        them.
      - A host that could not be reached is given without values and keeps those that it reported before.
    type: dict
    required: true
  settings:
    description:
      - Cluster-wide settings C(cluster_subnets), C(service_subnets), C(join_subnets), C(network_join_subnets),
        C(transit_subnets), C(masquerade_subnets), C(mtu). Missing ones have ovn-kubernetes's defaults.
      - C(layer2_topology) is the topology of a new cluster, C(transit-router) (the default) or C(gateway-router).
      - With C(dynamic_networks) (true) a user-defined network is only on nodes that need it. A node that no longer does
        keeps it for C(dynamic_networks_grace_period) seconds (120), 0 for not at all.
      - With C(egress_originating_only) (false) clients of an Egress answer connections of others directly.
      - C(networks_total) (4095) and C(networks_per_namespace) (0) limit the number of networks; 0 is no limit.
    type: dict
    default: {}
  manifest_set:
    description: Name of the set of manifests, so that several directories can be applied independently.
    type: str
    default: default
  deployment:
    description: Name of the deployment, which marks its objects on the hosts. Fixed by the first run.
    type: str
    default: heddle
  released:
    description:
      - Workloads that no longer exist, as C(NAMESPACE/NAME), whose addresses in networks with the lifecycle
        Persistent are to be released. They must not be among the manifests.
    type: list
    elements: str
    default: []
"""
