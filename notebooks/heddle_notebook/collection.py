# SPDX-License-Identifier: Apache-2.0
"""The collection's own arithmetic, so that pictures show the names and addresses that hosts have.

The collection is that of the repository which this package is in, else one that ansible-galaxy installed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .problem import HeddleError

_WITHIN = Path("ansible_collections") / "heddle" / "ovn"
REPOSITORY = Path(__file__).resolve().parents[2]
_INSTALLED = os.environ.get("ANSIBLE_COLLECTIONS_PATH", "~/.ansible/collections:/usr/share/ansible/collections")


def _collections() -> Path:
    """Return the directory of collections that has Heddle's."""
    candidates = [REPOSITORY / "collections", *(Path(path).expanduser() for path in _INSTALLED.split(":") if path)]
    for path in candidates:
        if (path / _WITHIN / "plugins").is_dir():
            return path
    raise HeddleError(
        f"the collection heddle.ovn is in none of {', '.join(map(str, candidates))}; "
        "install it with ansible-galaxy collection install, or set ANSIBLE_COLLECTIONS_PATH"
    )


COLLECTIONS = _collections()
PLAYBOOKS = COLLECTIONS / _WITHIN / "playbooks"
if str(COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(COLLECTIONS))

# They need the path above.
from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests  # noqa: E402
from ansible_collections.heddle.ovn.plugins.module_utils.common import naming  # noqa: E402
from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import family, plain  # noqa: E402
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_view import attention  # noqa: E402
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.node_network import (  # noqa: E402
    NodeNetwork,
    attachments,
    nodes_of,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit.tables import (  # noqa: E402
    cause_lines,
    foreign_lines,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.packets import packets_between, trace_text  # noqa: E402

__all__ = [
    "COLLECTIONS",
    "PLAYBOOKS",
    "REPOSITORY",
    "NodeNetwork",
    "attachments",
    "attention",
    "cause_lines",
    "family",
    "foreign_lines",
    "naming",
    "nodes_of",
    "packets_between",
    "plain",
    "read_manifests",
    "trace_text",
]
