# SPDX-License-Identifier: Apache-2.0
"""Room for the neighbours of a large lab of containers, which share the tables of this machine's kernel.

On hosts with a kernel of their own Heddle sets these limits. A container cannot.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.render.host.links_and_routes import NEIGHBOUR_LIMITS


@contextlib.contextmanager
def raised_limits(lab: Path, root: str = "/proc/sys") -> Iterator[None]:
    """Raise this machine's limits, for a lab of containers, until the block ends."""
    before: dict[Path, str] = {}
    if json.loads((lab / "lab.json").read_text())["driver"] == "nspawn":
        for one in NEIGHBOUR_LIMITS:
            path = Path(root) / one.name
            if path.exists() and int(found := path.read_text()) < int(one.value):
                before[path] = found
                path.write_text(one.value)
    try:
        yield
    finally:
        for path, found in reversed(before.items()):
            path.write_text(found)
