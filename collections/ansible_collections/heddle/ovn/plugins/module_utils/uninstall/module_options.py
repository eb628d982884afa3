# SPDX-License-Identifier: Apache-2.0
"""The options of the modules `host_record` and `host_removal`."""

from __future__ import annotations

from .footprint import FOOTPRINTS

RECORD_ARGUMENTS = {
    "role": {"type": "str", "required": True, "choices": list(FOOTPRINTS)},
    "packages": {"type": "list", "elements": "str", "default": []},
    "interfaces": {"type": "list", "elements": "str", "default": []},
}
REMOVAL_ARGUMENTS = {
    "node": {"type": "str", "required": True},
    "deployment": {"type": "str", "default": "heddle"},
    "databases": {"type": "str", "choices": ["remove", "keep"], "default": "remove"},
    "packages": {"type": "str", "choices": ["remove", "keep"], "default": "remove"},
    "remaining": {"type": "list", "elements": "str", "default": []},
    "force": {"type": "bool", "default": False},
}
