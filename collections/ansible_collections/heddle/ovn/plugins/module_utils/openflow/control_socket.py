# SPDX-License-Identifier: Apache-2.0
"""Commands for ovs-vswitchd over its control socket, without starting ovs-appctl(8).

The socket is named by the process (ovs-appctl(8), "OPTIONS"), and takes JSON-RPC requests (unixctl: a method with
strings as parameters; a result or an error, which are text).
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable

from ..ovsdb.protocol.framing import Framer, FramingError

# Seconds that ovs-vswitchd may be silent.
_TIMEOUT = 60.0


def call(
    command: str, *arguments: str, timeout: float = _TIMEOUT, then: Callable[[], object] | None = None
) -> str | None:
    """Return the result of a command; None where the daemon refuses it, or cannot be reached in this way.

    `then` is called between the request and its reply, which it may cause.
    """
    folder = os.environ.get("OVS_RUNDIR", "/var/run/openvswitch")
    request = json.dumps({"id": 0, "method": command, "params": arguments})
    try:
        with open(f"{folder}/ovs-vswitchd.pid", encoding="ascii") as file:
            path = f"{folder}/ovs-vswitchd.{int(file.read())}.ctl"
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
