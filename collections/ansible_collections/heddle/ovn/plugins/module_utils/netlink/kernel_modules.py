# SPDX-License-Identifier: Apache-2.0
"""What this host's kernel has of modules, by the files of modprobe(8)."""

from __future__ import annotations

import contextlib
import os


def datapath_type() -> str:
    """Return `system` where this kernel has Open vSwitch, else `netdev`."""
    return "system" if has_module("openvswitch") else "netdev"


def has_module(name: str) -> bool:
    """Return whether this kernel has a module, built in or loadable."""
    release = f"/lib/modules/{os.uname().release}"
    if os.path.isdir(f"/sys/module/{name}"):
        return True
    for listing in ("modules.dep", "modules.builtin"):
        with contextlib.suppress(OSError), open(f"{release}/{listing}", encoding="utf-8") as lines:
            if any(f"/{name}.ko" in line.partition(":")[0] for line in lines):
                return True
    return False
