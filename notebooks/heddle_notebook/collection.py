# SPDX-License-Identifier: Apache-2.0
"""The collection's own arithmetic, so that pictures show the names and addresses that hosts have."""

from __future__ import annotations

import sys
from pathlib import Path

_COLLECTIONS = str(Path(__file__).resolve().parents[2] / "collections")
if _COLLECTIONS not in sys.path:
    sys.path.insert(0, _COLLECTIONS)

from ansible_collections.heddle.ovn.plugins.module_utils.common import naming  # noqa: E402 - needs the path above
from ansible_collections.heddle.ovn.plugins.module_utils.common.addressing import family, plain  # noqa: E402
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.node_network import (  # noqa: E402
    NodeNetwork,
    attachments,
    nodes_of,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.report_tables import cause_lines, foreign_lines  # noqa: E402

__all__ = [
    "NodeNetwork",
    "attachments",
    "cause_lines",
    "family",
    "foreign_lines",
    "naming",
    "nodes_of",
    "plain",
]
