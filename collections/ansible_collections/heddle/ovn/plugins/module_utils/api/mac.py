# SPDX-License-Identifier: Apache-2.0
"""Fields that hold the MAC of an interface."""

from __future__ import annotations

import re

from .node import Node
from .problem import show

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_NO_MAC = "00:00:00:00:00:00"


def read_mac(node: Node | None) -> str | None:
    """A unicast MAC, in lower case and with colons; None where there is none, or a mistake."""
    text = node.text() if node else None
    if text is None:
        return None
    mac = text.lower().replace("-", ":")
    if not _MAC.fullmatch(mac):
        node.refuse(f"MAC is invalid: {show(text)}", "write six octets, as in 0a:58:0a:00:00:05")
        return None
    if int(mac[:2], 16) & 1 or mac == _NO_MAC:
        node.refuse(f"{mac} is not the MAC of one interface", "write a unicast MAC, as in 0a:58:0a:00:00:05")
        return None
    return mac
