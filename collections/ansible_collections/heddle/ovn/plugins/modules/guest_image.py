#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Build the kernel and initramfs of virtual machines."""

from __future__ import annotations

DOCUMENTATION = r"""
module: guest_image
short_description: Build the kernel and initramfs of virtual machines
version_added: 0.2.0
author:
  - Heddle maintainers (@heddle)
description:
  - Writes a kernel and an initramfs to a directory, built from the newest kernel of the host, the module of its network
    interface, its static busybox, and two scripts.
  - The image is rebuilt when one of these changed.
extends_documentation_fragment:
  - heddle.ovn.attributes
options:
  path:
    description: Directory of the image.
    type: path
    default: /var/lib/heddle/guest
  scripts:
    description: Directory with the guest's C(init) and C(lease).
    type: path
    default: /var/lib/heddle/guest/scripts
"""

EXAMPLES = r"""
- name: Build the guest image
  heddle.ovn.guest_image:
"""

RETURN = r"""
changes:
  description: Number of images created and updated.
  returned: success
  type: dict
  sample: {"create": 1, "update": 0, "delete": 0, "foreign": 0, "objects": []}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.qemu.guest_image import reconcile_guest_image


def main():
    """Build and report."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/var/lib/heddle/guest"},
            "scripts": {"type": "path", "default": "/var/lib/heddle/guest/scripts"},
        },
        supports_check_mode=True,
    )
    with module_runner.reported(module):
        outcome = reconcile_guest_image(module.params["path"], module.params["scripts"], write=not module.check_mode)
    module.exit_json(**module_runner.result(outcome))


if __name__ == "__main__":
    main()
