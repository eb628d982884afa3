#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Report whether the readiness probes of a host's workloads succeed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: probe_info
short_description: Report whether the readiness probes of a host's workloads succeed
version_added: 0.5.0
author:
  - Heddle maintainers (@heddle)
description:
  - Returns what the service C(heddle-probes) of the host has found about workloads with C(spec.readiness).
  - Waits for the first probe of each workload, at most for its C(initialDelaySeconds) and C(timeoutSeconds) and a few
    seconds besides. Check mode waits for nothing.
extends_documentation_fragment:
  - heddle.ovn.attributes.info
options:
  node:
    description: Name of the host in the plan.
    type: str
    required: true
  plan:
    description: File of the plan.
    type: path
    default: /var/lib/heddle/plan.json
seealso:
  - module: heddle.ovn.readiness
"""

EXAMPLES = r"""
- name: Read which workloads are ready
  heddle.ovn.probe_info:
    node: "{{ inventory_hostname }}"
  register: probes
"""

RETURN = r"""
readiness:
  description:
    - By C(NAMESPACE/NAME) of each workload of this host with a probe, whether it is ready; of one that is not, why its
      last probe has failed.
  returned: success
  type: dict
  sample: {"red/web": {"ready": false, "message": "TCP 10.0.0.3:8080: Connection refused"}}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.health.probes import probe_info_result
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_options import PROBE_INFO_ARGUMENTS


def main():
    """Read and report."""
    module = AnsibleModule(argument_spec=PROBE_INFO_ARGUMENTS, supports_check_mode=True)
    module_runner.run(module, probe_info_result)


if __name__ == "__main__":
    main()
