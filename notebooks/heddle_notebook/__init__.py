# SPDX-License-Identifier: Apache-2.0
"""The library of the notebooks: a fleet that they operate, the lab, and drawings and tables of results."""

from __future__ import annotations

import importlib

from .collection import COLLECTIONS
from .gateways import Gateways
from .problem import HeddleError, Interrupted, PlayFailed
from .report import Markup, Picture, Report
from .upgrade import Upgrade

__all__ = [
    "COLLECTIONS", "Capture", "Chaos", "Fleet", "Gateways", "HeddleError", "Interrupted", "Lab", "Markup", "Operation",
    "Picture", "PlayFailed", "Recorder", "Report", "Upgrade",
]  # fmt: skip
# They need pandas, which takes longer to load than the notebooks of reports to run.
_LATE = {
    "Capture": "capture", "Chaos": "chaos", "Fleet": "fleet", "Lab": "lab", "Operation": "confirmation",
    "Recorder": "recorder",
}  # fmt: skip


def __getattr__(name: str):
    """Load a class when it is used first."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f".{_LATE[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith(__name__):
            raise
        raise HeddleError(f"{error.name} is missing; run pip install ./notebooks") from None
