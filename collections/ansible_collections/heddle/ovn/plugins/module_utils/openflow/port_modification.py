# SPDX-License-Identifier: Apache-2.0
"""Changes the flooding of many ports of a bridge over one OpenFlow connection.

ovs-ofctl(8) has `mod-port` for one port, and reads the descriptions of all ports for each. Only OpenFlow 1.0 can
disable flooding of a port (specification 1.0.0: 5.1 header, 5.3.3 "Port Modification Message", 5.3.7 barrier, 5.4.4
errors). The connection is the management socket that ovs-vswitchd has for each bridge (ovs-vswitchd(8)).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from ..common.errors import OpenFlowError

# Seconds that ovs-vswitchd may be silent.
_TIMEOUT = 60.0
_VERSION = 1
_HELLO, _ERROR, _ECHO_REQUEST, _ECHO_REPLY, _PORT_MOD, _BARRIER_REQUEST, _BARRIER_REPLY = 0, 1, 2, 3, 15, 18, 19
_HEADER = struct.Struct("!BBHI")
# Port, hardware address, configuration, mask, advertised features, and what fills up.
_MODIFICATION = struct.Struct("!H6sIII4x")
_NO_FLOOD = 1 << 4
_LOCAL = 0xFFFE


@dataclass(frozen=True)
class FloodSetting:
    """Whether packets are flooded to a port: its OpenFlow number or `LOCAL`, and its MAC, which the switch checks."""

    port: str
    mac: str
    flood: bool


def management_socket(bridge: str) -> str:
    """Return the path of a bridge's socket, in the directory that programs of Open vSwitch use."""
    return f"{os.environ.get('OVS_RUNDIR', '/var/run/openvswitch')}/{bridge}.mgmt"


def set_flooding(path: str, settings: Iterable[FloodSetting], timeout: float = _TIMEOUT) -> None:
    """Set the flooding of ports, and return when the switch has done so.

    OpenFlowError when the switch rejects a port (all others are set), or does not answer for `timeout` seconds.
    """
    wanted = list(settings)
    try:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(timeout)
            stream.connect(path)
            stream.sendall(_message(_HELLO, 0))
            with stream.makefile("rb") as replies:
                _expect_hello(replies)
                for number, one in enumerate(wanted):
                    stream.sendall(_message(_PORT_MOD, number, _body(one)))
                stream.sendall(_message(_BARRIER_REQUEST, len(wanted)))
                rejected = _rejected(stream, replies, len(wanted))
    except OSError as error:
        raise OpenFlowError(f"{path}: {error.strerror or error}. Does ovs-vswitchd run?") from error
    if rejected:
        ports = ", ".join(f"{wanted[number].port} ({text})" for number, text in sorted(rejected.items()))
        raise OpenFlowError(f"{path}: the switch does not change the flooding of port {ports}")


def _body(setting: FloodSetting) -> bytes:
    number = _LOCAL if setting.port == "LOCAL" else int(setting.port)
    mac = bytes.fromhex(setting.mac.replace(":", ""))
    return _MODIFICATION.pack(number, mac, 0 if setting.flood else _NO_FLOOD, _NO_FLOOD, 0)


def _message(kind: int, identifier: int, body: bytes = b"") -> bytes:
    return _HEADER.pack(_VERSION, kind, _HEADER.size + len(body), identifier) + body


def _read(replies) -> tuple[int, int, bytes]:
    """Return kind, identifier and body of the next message."""
    head = replies.read(_HEADER.size)
    if len(head) < _HEADER.size:
        raise ConnectionError("the connection has ended")
    _version, kind, size, identifier = _HEADER.unpack(head)
    body = replies.read(size - _HEADER.size)
    return kind, identifier, body


def _expect_hello(replies) -> None:
    kind, _identifier, body = _read(replies)
    if kind != _HELLO:
        raise ConnectionError(f"no OpenFlow 1.0 ({_error_text(body)})")


def _rejected(stream: socket.socket, replies, barrier: int) -> dict[int, str]:
    """Return the errors by the number of their message, once the barrier was answered."""
    found: dict[int, str] = {}
    while True:
        kind, identifier, body = _read(replies)
        if kind == _ECHO_REQUEST:
            stream.sendall(_message(_ECHO_REPLY, identifier, body))
        elif kind == _ERROR:
            found[identifier] = _error_text(body)
            if identifier >= barrier:
                raise ConnectionError(found[identifier])
        elif kind == _BARRIER_REPLY and identifier == barrier:
            return found


def _error_text(body: bytes) -> str:
    return "error type {}, code {}".format(*struct.unpack("!HH", body[:4])) if len(body) >= 4 else "no error"
