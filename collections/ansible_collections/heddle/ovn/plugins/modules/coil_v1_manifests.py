#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write manifests that import the addresses of Coil v1."""

from __future__ import annotations

DOCUMENTATION = r"""
module: coil_v1_manifests
short_description: Write manifests that import the addresses of Coil v1
version_added: 0.5.0
author:
  - Heddle maintainers (@heddle)
description:
  - Reads what Coil v1 stored in etcd and writes one file of manifests. It has the kinds C(AddressPool) and
    C(Namespace), a reserved C(AddressBlock) for each block of a host that has Coil v1, and a C(Workload) with its
    former address for each pod of a host that has none any more.
  - This is what C(coil-migrator dump) and C(coil-migrator replace) of Coil v2 do, but for the addresses, which Coil v2
    gives anew.
  - Runs where the manifests are, usually the control node. All mistakes are reported at once, and nothing is written.
attributes:
  check_mode:
    description: Reports how the file would change.
    support: full
  diff_mode:
    description: Shows the file.
    support: full
  idempotent:
    description: A file with equal content is not written.
    support: full
options:
  src:
    description: The output of C(etcdctl get --prefix /coil/ --write-out=json).
    type: path
    required: true
  dest:
    description: The file of manifests. Its directory has to exist.
    type: path
    required: true
  nodes:
    description: Names of the hosts in the inventory. Coil v1 has to know them by the same names.
    type: list
    elements: str
    required: true
  replaced:
    description: Hosts without Coil v1, whose pods are workloads now.
    type: list
    elements: str
    default: []
  namespaces:
    description: Whether the file has the namespaces; otherwise other manifests have them, with the annotation
      C(coil.cybozu.com/pool).
    type: bool
    default: true
  prefix:
    description: Prefix of the keys in etcd.
    type: str
    default: /coil/
seealso:
  - module: heddle.ovn.resource
"""

EXAMPLES = r"""
- name: Reserve the blocks of Coil v1, but import the pods of node1
  heddle.ovn.coil_v1_manifests:
    src: coil.json
    dest: manifests/coil_v1.yml
    nodes: "{{ groups['heddle_nodes'] }}"
    replaced: [node1]
  delegate_to: localhost
"""

RETURN = r"""
waiting:
  description: Pods of each host that has Coil v1.
  returned: success
  type: dict
  sample: {node2: [web/web-1]}
replaced:
  description: Workloads with the addresses of pods, by host.
  returned: success
  type: dict
  sample: {node1: [web/web-0]}
skipped:
  description: Blocks of pools that do not exist, and unused ones of hosts that are not in the inventory.
  returned: success
  type: list
  elements: str
  sample: [10.64.0.64/27 of pool default on node9]
problems:
  description: One line for each mistake.
  returned: failure
  type: list
  elements: str
  sample: ["coil.json: /coil/pool/default: block_size: \"a\" is no number from 0 to 31; ..."]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.operations.coil_migration import (
    ARGUMENTS,
    Refused,
    manifests_result,
)


def main():
    """Write what differs."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        module.exit_json(**manifests_result(module.params, write=not module.check_mode))
    except Refused as error:
        module.fail_json(msg=str(error), problems=error.problems)


if __name__ == "__main__":
    main()
