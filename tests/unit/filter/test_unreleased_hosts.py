# SPDX-License-Identifier: Apache-2.0
"""Which former hosts of addresses that move still have them."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.filter.unreleased_hosts import unreleased_hosts

MOVED = {"192.0.2.1": "node1", "192.0.2.2": "node2", "192.0.2.3": "node1"}
DONE, BROKEN = {"changes": {}}, {"msg": "br-ex: no answer", "failed": False}
LEFT = "it failed before in this run, for the reason shown above"


@pytest.mark.parametrize(
    ("results", "playing", "absent", "expected"),
    [
        ({"node1": DONE, "node2": DONE}, ["node1", "node2", "node3"], [], {}),
        ({"node1": BROKEN, "node2": DONE}, ["node1", "node2"], [], {"node1": "br-ex: no answer"}),
        # It was lost in this step, or is down: nothing holds others back.
        ({"node1": {"unreachable": True, "msg": "timeout"}, "node2": DONE}, ["node2"], [], {}),
        ({"node2": DONE}, ["node2"], [{"item": "node1", "unreachable": True}], {}),
        ({"node2": DONE}, ["node2"], [{"item": "node1", "rc": 0}], {"node1": LEFT}),
        # Of an earlier move in the same run.
        ({"node1": DONE, "node2": DONE}, ["node2"], [{"item": "node1", "rc": 0}], {"node1": LEFT}),
        ({"node2": DONE}, ["node1", "node2"], [], {"node1": "the step did not run"}),
    ],
)
def test_hosts_that_answer_and_have_not_given_up_their_addresses(results, playing, absent, expected):
    hostvars = {name: {"zone_released": results[name]} if name in results else {} for name in ("node1", "node2")}
    assert unreleased_hosts(hostvars, MOVED, playing, absent) == expected
