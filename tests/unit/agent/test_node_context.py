# SPDX-License-Identifier: Apache-2.0
"""Options of a module become what its callee takes, in one place."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import connected, node_context, options
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import Unreachable
from ansible_collections.heddle.ovn.plugins.module_utils.traffic.control import Request


def module(check_mode: bool = False, **more) -> SimpleNamespace:
    params = {"node": "node1", "plan": "/plan.json", "document": None, **more}
    return SimpleNamespace(params=params, check_mode=check_mode)


@pytest.mark.parametrize("check_mode", [True, False])
def test_check_mode_is_no_write(check_mode):
    assert node_context(module(check_mode)) == NodeContext("node1", "/plan.json", write=not check_mode)


def test_a_module_that_waits_hands_its_seconds_over():
    assert node_context(module(wait_timeout=120)).timeout == 120


def test_options_are_taken_by_their_names():
    given = module(state="started", port=7655, lifetime=60, external={}, interval=10, unknown=1)
    assert options(given, Request) == Request("started", 7655, 60, {}, 10)


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
def test_a_database_that_is_not_there_yet_is_only_missing_when_something_is_to_be_written(tmp_path, names):
    remote = ",".join(f"unix:{tmp_path / name}" for name in names)
    with connected(remote, write=False) as client:
        assert client is None
    with pytest.raises(Unreachable), connected(remote, write=True):
        pass
