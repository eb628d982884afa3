#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Return the content of the state database."""

from __future__ import annotations

DOCUMENTATION = r"""
module: resource_info
short_description: Return the content of the state database
version_added: 0.1.0
author:
  - Heddle maintainers (@heddle)
description:
  - Returns all objects with their status, and nodes, networks and workloads with their allocations.
  - The objects include the network attachment definitions of networks in their namespaces.
  - Runs on the state host.
extends_documentation_fragment:
  - heddle.ovn.attributes.info
  - heddle.ovn.state_database
seealso:
  - module: heddle.ovn.resource
"""

EXAMPLES = r"""
- name: Read the state database
  heddle.ovn.resource_info:
  register: cluster
"""

RETURN = r"""
revision:
  description: Revision of the state.
  returned: success
  type: int
  sample: 7
deployment:
  description: Name of the deployment; empty before the first manifests were admitted.
  returned: success
  type: str
  sample: lab
digest:
  description: Fingerprint of the plan.
  returned: success
  type: str
  sample: 3b0c44298fc1c149
host_plans:
  description: Fingerprint of the part of the plan that each node should have.
  returned: success
  type: dict
  version_added: 0.5.0
  sample: {"node1": 3b0c44298fc1c149}
objects:
  description: Objects by key, as an API server would return them. C(status) is Heddle's.
  returned: success
  type: dict
  sample: {"Namespace/red": {"kind": "Namespace", "metadata": {"name": "red"}, "status": {"phase": "Active"}}}
nodes:
  description: Nodes by name with id, chassis and addresses.
  returned: success
  type: dict
  sample: {"node1": {"id": 2, "chassis": "7c3c1f0e-6f0c-4f57-9d0c-8a4d1c3a9f11"}}
networks:
  description: Networks by name with id, topology, role, subnets and tunnel keys.
  returned: success
  type: dict
  sample: {"red_red": {"id": 4, "topology": "Layer3", "tunnel_keys": [16711687]}}
workloads:
  description: Workloads by namespace and name, with node and interfaces.
  returned: success
  type: dict
  sample: {"red/red1": {"node": "node1", "interfaces": []}}
users:
  description: Workloads that are attached to each network.
  returned: success
  type: dict
  sample: {"red_red": ["red/red1"]}
endpoints:
  description: Endpoints of each Service by address, of the families that it shares with its network.
  returned: success
  type: dict
  sample: {"red/web": [{"address": "10.0.0.3", "workload": "red/red1", "node": "node1", "ready": true}]}
  contains:
    address:
      description: Address of the endpoint.
      type: str
    ports:
      description: Its ports, those of C(targetPort) or of the EndpointSlice.
      type: list
      elements: int
    ready:
      description:
        - Whether it is ready by its manifest, its readiness probe or the EndpointSlice, as of the last run.
        - Always true with C(publishNotReadyAddresses).
      type: bool
    terminating:
      description: Whether it is terminating and serves still, so that it is used where no endpoint is ready.
      type: bool
    node:
      description: Its node. Null for one that is on no node of the cluster, or whose EndpointSlice names none.
      type: str
    workload:
      description: The workload that has the address on the network, as C(NAMESPACE/NAME). Null for an external one.
      type: str
    slice:
      description: The EndpointSlice that lists it. Null for a workload that the selector chooses.
      type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_options import STATE_DATABASE
from ansible_collections.heddle.ovn.plugins.module_utils.operations.state_result import resource_info_result


def main():
    """Read and return."""
    module = AnsibleModule(argument_spec=STATE_DATABASE, supports_check_mode=True)
    module_runner.run(module, resource_info_result)


if __name__ == "__main__":
    main()
