# SPDX-License-Identifier: Apache-2.0
"""Lets Python store the byte code of this collection's Python modules on the control node.

Ansible's loader of collections compiles each Python module whenever a process imports it, and each task is a process of
its own (ansible-core 2.19, `_collection_finder.py`, `get_code`). After `start`, Python's own loader imports those below
`plugins`, with byte code in `__pycache__` beside them where the user may write (PEP 3147), unless
PYTHONDONTWRITEBYTECODE is set. Packages stay with Ansible's loader, which AnsiballZ needs for them. Importing a plugin
alone changes nothing about imports.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_PLUGINS = f"{__name__.rpartition('.plugin_utils.')[0]}."


class PluginFinder(importlib.abc.MetaPathFinder):
    """Finds Python modules of the collection that are files, in the directories of their packages."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:  # fmt: skip
        """Return the spec of a module, None for a package and for whatever is not of this collection."""
        del target
        if fullname.startswith(_PLUGINS):
            for directory in path or ():
                file = Path(directory) / f"{fullname.rpartition('.')[2]}.py"
                if file.is_file():
                    return importlib.util.spec_from_file_location(fullname, file)
        return None


def start() -> None:
    """Let Python's own loader import the collection's modules from now on, in this process."""
    # It does so anyway where the collection is on its path, as in unit tests.
    is_needed = not isinstance(__loader__, importlib.machinery.SourceFileLoader)
    if is_needed and not any(isinstance(one, PluginFinder) for one in sys.meta_path):
        sys.meta_path.insert(0, PluginFinder())
