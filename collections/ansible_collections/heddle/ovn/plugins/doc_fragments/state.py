# SPDX-License-Identifier: Apache-2.0
"""Options of modules that decide about the state of the cluster."""

from __future__ import annotations


class ModuleDocFragment:
    """What the state is made of."""

    DOCUMENTATION = r"""
options:
  resources:
    description:
      - The manifests, as returned by the M(heddle.ovn.manifest) module in RV(heddle.ovn.manifest#module:document).
      - They are the whole of their O(manifest_set); what the set held and they do not contain is removed.
    type: str
    required: true
  nodes:
    description:
      - The hosts, by name. Each is a dictionary with C(chassis) (system-id of Open vSwitch), C(encap_ips) (list of
        addresses that tunnels end at) and C(addresses) (list of the host's own addresses).
      - A host that could not be asked is given without values and keeps those that it told before.
    type: dict
    required: true
  settings:
    description:
      - Cluster-wide settings C(cluster_subnets), C(service_subnets), C(join_subnets), C(network_join_subnets),
        C(transit_subnets), C(masquerade_subnets), C(mtu). What is left out has ovn-kubernetes's default.
      - C(layer2_topology) is what a fresh cluster begins with, C(transit-router) (the default) or C(gateway-router).
      - C(networks_total) (4095) and C(networks_per_namespace) (0) limit how many networks there may be; 0 is no limit.
    type: dict
    default: {}
  manifest_set:
    description: Name of the set that the manifests are, so that several directories can be applied independently.
    type: str
    default: default
  deployment:
    description: Name of the deployment, which marks what it owns on the hosts. Kept from the first run on.
    type: str
    default: heddle
  released:
    description:
      - Workloads that are gone, as C(NAMESPACE/NAME), whose addresses in networks with the lifecycle Persistent are
        kept no longer. They must not be among the manifests.
    type: list
    elements: str
    default: []
  socket:
    description: Where the state database listens, C(unix:PATH) or C(tcp:HOST:PORT), or several with commas between.
    type: str
    default: unix:/run/heddle-state/heddle.sock
"""
