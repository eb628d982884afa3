# SPDX-License-Identifier: Apache-2.0
"""Byte code of the collection's Python modules is stored where Ansible's own loader of collections imports them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.plugin_utils import import_cache

ROOT = Path(__file__).parents[3]
PLUGINS = "ansible_collections.heddle.ovn.plugins"
FILE = "module_utils/common/text/text_table.py"
# As Ansible's command lines begin; then what a task does first.
PROGRAM = f"""
from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder
_AnsibleCollectionFinder(paths=[{str(ROOT / "collections")!r}])._install()
import sys
from {PLUGINS}.plugin_utils.deferred import deferred
from {PLUGINS}.callback import progress
finders = list(sys.meta_path)
{{first}}
from {PLUGINS}.module_utils.common.text import text_table
import {PLUGINS}.plugin_utils as package
found = [type(one.__loader__).__name__ for one in (text_table, package)]
print(*found, len(sys.meta_path) - len(finders), text_table.__file__)
"""
STARTS = {
    "a filter": 'deferred("module_utils.common.text.some_of", "some_of")([], 1)',
    "the callback": "progress.CallbackModule()",
    "both": 'progress.CallbackModule(); deferred("module_utils.common.text.some_of", "some_of")([], 1)',
}


def run(first: str, cache: Path) -> list[str]:
    """Run the program with byte code below `cache`; return the words printed."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(cache)}
    environment.pop("PYTHONPATH", None)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(first=first)],
        cwd=cache, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("first", STARTS.values(), ids=STARTS)
def test_byte_code_is_stored_from_the_first_use_on(first: str, tmp_path: Path):
    *found, file = run(first, tmp_path)
    assert found == ["SourceFileLoader", "_AnsibleCollectionLoader", "1"]
    assert Path(file) == ROOT / "collections" / PLUGINS.replace(".", "/") / FILE
    assert list(tmp_path.rglob(f"text_table.{sys.implementation.cache_tag}.pyc"))


def test_importing_plugins_alone_changes_nothing(tmp_path: Path):
    """Ansible's sanity tests demand it. When it stores byte code by itself, `import_cache` is not needed any more."""
    *found, _file = run("", tmp_path)
    assert found == ["_AnsibleCollectionLoader", "_AnsibleCollectionLoader", "0"]
    assert not list(tmp_path.rglob("text_table.*"))


def test_imports_by_python_itself_are_left_alone():
    import_cache.start()
    assert not [one for one in sys.meta_path if isinstance(one, import_cache.PluginFinder)]
