# SPDX-License-Identifier: Apache-2.0
"""The logic of the notebooks: drawings and tables of the playbooks' results."""

from __future__ import annotations

# The first one makes the collection importable, which the others use.
from . import collection
from .gateways import Gateways
from .report import Markup, Picture, Report
from .upgrade import Upgrade

__all__ = ["Gateways", "Markup", "Picture", "Report", "Upgrade", "collection"]
