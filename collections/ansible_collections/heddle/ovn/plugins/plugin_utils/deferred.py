# SPDX-License-Identifier: Apache-2.0
"""Functions whose module is imported when they are first called.

For one filter Ansible loads the files of all filters of a collection, in the process of each task, and compiles their
imports anew. So a filter imports nothing that the others need not wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from .import_cache import start

_PLUGINS = "ansible_collections.heddle.ovn.plugins"


def deferred(module: str, name: str) -> Callable:
    """Return a function that calls `name` of a module, which is named below the collection's plugins."""

    def call(*positional: object, **named: object) -> object:
        start()
        return getattr(import_module(f"{_PLUGINS}.{module}"), name)(*positional, **named)

    return call
