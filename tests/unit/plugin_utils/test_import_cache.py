# SPDX-License-Identifier: Apache-2.0
"""Byte code of the collection's Python modules is stored where Ansible's own loader of collections imports them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PLUGINS = "ansible_collections.heddle.ovn.plugins"
# As Ansible's command lines begin; then the base of the actions, and a module that a task needs.
PROGRAM = f"""
from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder
_AnsibleCollectionFinder(paths=[{str(ROOT / "collections")!r}])._install()
import {PLUGINS}.{{first}}
from {PLUGINS}.module_utils.common import text_table
import {PLUGINS}.plugin_utils as package
print(type(text_table.__loader__).__name__, type(package.__loader__).__name__, text_table.__file__)
"""


def run(first: str, cache: Path) -> list[str]:
    """Import `first` and then another module; return the words printed."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(cache)}
    environment.pop("PYTHONPATH", None)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(first=first)],
        cwd=cache, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_byte_code_is_stored_from_the_base_of_actions_on(tmp_path):
    for first in ("program_call", "control_node_check", "deferred", "progress_display"):
        cache = tmp_path / first
        cache.mkdir()
        loader, packages, file = run(f"plugin_utils.{first}", cache)
        assert (loader, packages) == ("SourceFileLoader", "_AnsibleCollectionLoader")
        assert Path(file) == ROOT / "collections" / PLUGINS.replace(".", "/") / "module_utils/common/text_table.py"
        assert list(cache.rglob(f"text_table.{sys.implementation.cache_tag}.pyc"))


def test_without_it_ansible_compiles_again(tmp_path):
    """What the file is for; when this fails, Ansible's loader stores byte code by itself."""
    loader, _packages, _file = run("module_utils.common.some_of", tmp_path)
    assert loader == "_AnsibleCollectionLoader"
    assert not list(tmp_path.rglob("text_table.*"))


def test_imports_of_python_itself_are_left_alone():
    from ansible_collections.heddle.ovn.plugins.plugin_utils import import_cache

    assert not [one for one in sys.meta_path if isinstance(one, import_cache.PluginFinder)]
