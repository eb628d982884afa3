# SPDX-License-Identifier: Apache-2.0
"""Commands for the daemons of Open vSwitch and OVN over their control sockets, without starting ovs-appctl(8).

The socket is named by the process (ovs-appctl(8), "OPTIONS"), and takes JSON-RPC requests (unixctl: a method with
strings as parameters; a result or an error, which are text).
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable

from .protocol.framing import Framer, FramingError

VSWITCHD, NORTHD, CONTROLLER = "ovs-vswitchd", "ovn-northd", "ovn-controller"
# Where a daemon's files are: an environment variable, and its default.
_OVN = ("OVN_RUNDIR", "/var/run/ovn")
_FOLDERS = {VSWITCHD: ("OVS_RUNDIR", "/var/run/openvswitch"), NORTHD: _OVN, CONTROLLER: _OVN}
# Seconds that a daemon may be silent.
_TIMEOUT = 60.0


def folder_of(daemon: str) -> str:
    """Return the directory that has a daemon's pid file and control socket."""
    return os.environ.get(*_FOLDERS[daemon])


def call(
    daemon: str,
    command: str,
    *arguments: str,
    timeout: float = _TIMEOUT,
    then: Callable[[], object] | None = None,
) -> str | None:
    """Return the result of a command; None where the daemon refuses it, or cannot be reached in this way.

    `then` is called between the request and its reply, which it may cause.
    """
    folder = folder_of(daemon)
    request = json.dumps({"id": 0, "method": command, "params": arguments})
    try:
        with open(f"{folder}/{daemon}.pid", encoding="ascii") as file:
            path = f"{folder}/{daemon}.{int(file.read())}.ctl"
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(timeout)
            stream.connect(path)
            stream.sendall(request.encode())
            if then is not None:
                then()
            framer = Framer()
            while data := stream.recv(1 << 16):
                for reply in framer.feed(data):
                    return None if reply.get("error") is not None else reply.get("result")
    except (OSError, ValueError, FramingError):
        pass
    return None
