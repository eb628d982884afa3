# SPDX-License-Identifier: Apache-2.0
"""Runs the daemon of this host by the plan that playbooks wrote."""

from __future__ import annotations

import asyncio
import os

from ..common.naming import MESH_BRIDGE, MESH_CERTIFICATES
from .asking import STATUS_SOCKET
from .configuration import configuration_of
from .daemon import Certificates, Daemon, Paths

OPEN_VSWITCH_SOCKETS = "/run/openvswitch"


def host_paths():
    """Return where things are on an installed host."""
    files = Certificates(*(f"{MESH_CERTIFICATES}/{name}.pem" for name in ("key", "cert", "ca")))
    return Paths(f"{OPEN_VSWITCH_SOCKETS}/{MESH_BRIDGE}.mgmt", STATUS_SOCKET, files)


class PlanReader:
    """The configuration by the plan in a file, read again when the file was replaced; None without a plan."""

    def __init__(self, path, node, read):
        self._path, self._node, self._read = path, node, read
        self._version, self._configuration = None, None

    def __call__(self):
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return None
        version = status.st_ino, status.st_mtime_ns
        if version != self._version:
            self._configuration = configuration_of(self._read(self._path), self._node)
            self._version = version
        return self._configuration


def run(path, node, read, paths, say):
    """Run until the plan in `path` has no network of the mesh. `read` reads a plan, `say` takes lines for the log."""
    os.makedirs(os.path.dirname(paths.status), mode=0o755, exist_ok=True)
    asyncio.run(Daemon(PlanReader(path, node, read), paths, say).run())
