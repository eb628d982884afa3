# SPDX-License-Identifier: Apache-2.0
"""Changes the flooding of many ports of a bridge over one OpenFlow connection.

ovs-ofctl(8) has `mod-port` for one port, and reads the descriptions of all ports for each. Only OpenFlow 1.0 can
disable flooding of a port (specification 1.0.0, section 5.3.3, "Port Modification Message").
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from ..common.errors import OpenFlowError
from .management_connection import TIMEOUT, VERSION_1_0, connected

_PORT_MOD = 15
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


def set_flooding(path: str, settings: Iterable[FloodSetting], timeout: float = TIMEOUT) -> None:
    """Set the flooding of ports, and return when the switch has done so.

    `path` is the bridge's management socket. OpenFlowError when the switch rejects a port (all others are set), or does
    not answer for `timeout` seconds.
    """
    wanted = list(settings)
    with connected(path, VERSION_1_0, timeout) as connection:
        _replies, rejected = connection.exchange((_PORT_MOD, _body(one)) for one in wanted)
    if rejected:
        ports = ", ".join(f"{wanted[number].port} ({text})" for number, text in sorted(rejected.items()))
        raise OpenFlowError(f"{path}: the switch does not change the flooding of port {ports}")


def _body(setting: FloodSetting) -> bytes:
    number = _LOCAL if setting.port == "LOCAL" else int(setting.port)
    mac = bytes.fromhex(setting.mac.replace(":", ""))
    return _MODIFICATION.pack(number, mac, 0 if setting.flood else _NO_FLOOD, _NO_FLOOD, 0)
