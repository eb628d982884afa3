# SPDX-License-Identifier: Apache-2.0
"""Options of the modules that connect to the state database."""

from __future__ import annotations


class ModuleDocFragment:
    """Where the state database listens, and the files for TLS."""

    DOCUMENTATION = r"""
options:
  socket:
    description:
      - Where the state database listens, C(unix:PATH), C(tcp:HOST:PORT) or C(ssl:HOST:PORT), or several with commas
        between. Of the members of a cluster, writing modules use the leader.
      - V(ssl:HOST:PORT) needs O(private_key), O(certificate) and O(ca_cert).
    type: str
    default: unix:/run/heddle-state/heddle.sock
  private_key:
    description: File in PEM format on the host with the private key of O(certificate).
    type: path
  certificate:
    description: File in PEM format on the host with the certificate that is shown to the server.
    type: path
  ca_cert:
    description:
      - File in PEM format on the host with the certificate of the authority that signed the server's certificate.
      - The server's name is not compared, because ovs-pki(8) writes none into certificates.
    type: path
notes:
  - In playbooks, the variable C(heddle_state_database) has these options for all modules of the action group
    C(heddle.ovn.state_database).
"""
