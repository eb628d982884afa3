# SPDX-License-Identifier: Apache-2.0
"""Runs the daemon of this host by the plan that playbooks wrote."""

from __future__ import annotations

import asyncio
import os

from ..common.naming import MESH_BRIDGE, MESH_CERTIFICATES
from ..common.replaced_file import ReplacedFile
from .asking import STATUS_SOCKET
from .configuration import configuration_of
from .daemon import Certificates, Daemon, Paths

OPEN_VSWITCH_SOCKETS = "/run/openvswitch"


def host_paths():
    """Return where things are on an installed host."""
    files = Certificates(*(f"{MESH_CERTIFICATES}/{name}.pem" for name in ("key", "cert", "ca")))
    return Paths(f"{OPEN_VSWITCH_SOCKETS}/{MESH_BRIDGE}.mgmt", STATUS_SOCKET, files)


def run(path, node, read, paths, say):
    """Run until the plan in `path` has no network of the mesh. `read` reads a plan, `say` takes lines for the log."""
    os.makedirs(os.path.dirname(paths.status), mode=0o755, exist_ok=True)
    configuration = ReplacedFile(path, lambda name: configuration_of(read(name), node))
    asyncio.run(Daemon(configuration, paths, say).run())
