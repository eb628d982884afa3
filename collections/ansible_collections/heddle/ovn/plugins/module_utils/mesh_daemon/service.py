# SPDX-License-Identifier: Apache-2.0
"""Runs the daemon of this host by the plan that playbooks wrote."""

from __future__ import annotations

import asyncio
import os

from ..common.files.replaced_file import ReplacedFile
from ..common.naming import MESH_BRIDGE, MESH_CERTIFICATES
from ..mesh import sealing
from . import esp
from .configuration import ConfigurationError, configuration_of
from .daemon import Certificates, Daemon, Paths
from .status_client import STATUS_SOCKET

# As usual for IPsec.
REKEY_SECONDS = 3600
OPEN_VSWITCH_SOCKETS = "/run/openvswitch"


def host_paths():
    """Return where things are on an installed host."""
    files = Certificates(*(f"{MESH_CERTIFICATES}/{name}.pem" for name in ("key", "cert", "ca")))
    return Paths(f"{OPEN_VSWITCH_SOCKETS}/{MESH_BRIDGE}.mgmt", STATUS_SOCKET, files)


def run(path, node, read, paths, say, lacking=esp.lacking, rekey_seconds=REKEY_SECONDS):
    """Run until the plan in `path` has no network of the mesh. `read` reads a plan, `say` takes lines for the log.

    `lacking` says why this host cannot use ESP with its address. A daemon that ends otherwise leaves policies and
    associations, so that nothing leaves the host in clear meanwhile.
    """
    os.makedirs(os.path.dirname(paths.status), mode=0o755, exist_ok=True)
    configuration = ReplacedFile(path, lambda name: configuration_of(read(name), node))
    while (current := configuration()) is not None:
        if current.encrypted and not sealing.is_available():
            raise ConfigurationError("python3-cryptography is missing on this host; run heddle.ovn.networks")
        reason = lacking(current.address) if current.encrypted else ""
        if reason:
            say(f"encryption without the fast datapath: {reason}")
        elif not current.encrypted:
            esp.remove_all()
        asyncio.run(Daemon(configuration, paths, say, reason, rekey_seconds).run())
    esp.remove_all()
