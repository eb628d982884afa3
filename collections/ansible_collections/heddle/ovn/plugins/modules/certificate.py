#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Certificates of hosts by an authority of the deployment."""

from __future__ import annotations

DOCUMENTATION = r"""
module: certificate
short_description: Certificates of hosts by an authority of the deployment
version_added: 0.5.0
author:
  - Heddle maintainers (@heddle)
description:
  - Makes the private key of a host on the host and returns a request for a certificate, signs requests where the
    authority is, and stores the certificate on the host.
  - Private keys never leave the machine that they were made on, and are in no result, difference or log.
requirements:
  - The program C(openssl) on the host.
extends_documentation_fragment:
  - heddle.ovn.attributes
options:
  state:
    description:
      - V(requested) makes a key if there is none, and returns a request if O(directory) has no certificate by
        O(authority_certificate) that is good for 90 days more.
      - V(signed) makes the authority if there is none, and signs O(requests).
      - V(installed) stores O(certificate) and O(authority_certificate).
    type: str
    required: true
    choices: [requested, signed, installed]
  directory:
    description: Where a host has C(key.pem), C(cert.pem) and C(ca.pem).
    type: path
    default: /var/lib/heddle/mesh
  node:
    description: Name of the host; required for V(requested).
    type: str
  authority:
    description: Where the authority has C(key.pem) and C(ca.pem).
    type: path
    default: /var/lib/heddle/authority
  deployment:
    description: Name of the deployment, which the authority is named after.
    type: str
    default: heddle
  requests:
    description: Requests by the name of the host; empty ones are left out.
    type: dict
    default: {}
  certificate:
    description: Certificate of the host in PEM format; an empty text leaves the present one.
    type: str
    default: ""
  authority_certificate:
    description: Certificate of the authority in PEM format.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Make a key and a request
  heddle.ovn.certificate:
    state: requested
    node: node1
  register: asked

- name: Sign the request
  heddle.ovn.certificate:
    state: signed
    requests: {node1: "{{ asked.request }}"}
  delegate_to: state1
  register: signed

- name: Store the certificate
  heddle.ovn.certificate:
    state: installed
    certificate: "{{ signed.certificates.node1 }}"
    authority_certificate: "{{ signed.authority_certificate }}"
"""

RETURN = r"""
request:
  description: Request for a certificate in PEM format, empty when the host has a good one.
  returned: with O(state=requested)
  type: str
  sample: "-----BEGIN CERTIFICATE REQUEST-----"
certificates:
  description: Certificates in PEM format by the name of the host.
  returned: with O(state=signed)
  type: dict
  sample: {}
authority_certificate:
  description: Certificate of the authority in PEM format, empty in check mode before there is one.
  returned: with O(state=signed)
  type: str
  sample: "-----BEGIN CERTIFICATE-----"
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.heddle.ovn.plugins.module_utils.agent import module_runner
from ansible_collections.heddle.ovn.plugins.module_utils.agent.certificates import certificate_result

ARGUMENTS = {
    "state": {"type": "str", "required": True, "choices": ["requested", "signed", "installed"]},
    "directory": {"type": "path", "default": "/var/lib/heddle/mesh"},
    "node": {"type": "str"},
    "authority": {"type": "path", "default": "/var/lib/heddle/authority"},
    "deployment": {"type": "str", "default": "heddle"},
    "requests": {"type": "dict", "default": {}},
    "certificate": {"type": "str", "default": ""},
    "authority_certificate": {"type": "str", "default": ""},
}


def main():
    """Request, sign or install."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS, required_if=[("state", "requested", ["node"])], supports_check_mode=True
    )
    module_runner.run(module, certificate_result)


if __name__ == "__main__":
    main()
