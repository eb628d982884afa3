# SPDX-License-Identifier: Apache-2.0
"""Modules against a database, with the manifests of a test."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.api import packed, read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from tests.module_entry import run_module
from tests.pipeline import THREE_NODES

# For what modules keep of byte code, of all tests.
_HOME = tempfile.TemporaryDirectory()


def run(module, *, check=False, **arguments):
    """Run a module by its own entry, as Ansible does on a host, and return its result."""
    return run_module(module, Path(_HOME.name), check=check, **arguments)


def manifests(text):
    """Return the options of `resource` for a text of manifests."""
    resources, problems = read_manifests([("t.yml", text)])
    assert not problems
    return {"resources": pack([packed(resource) for resource in resources]), "nodes": THREE_NODES}


def intent(text, database, **changes):
    return {**manifests(text), "socket": database.remote, **changes}
