# SPDX-License-Identifier: Apache-2.0
"""Where a virtual machine runs after a move that may have failed: the whole truth table.

The worst error is to start a VM that may still run: two of them would write to one disk and have one address.
"""

import itertools

import pytest

from ansible_collections.heddle.ovn.plugins.filter.vm_location import FilterModule

MOVE = {"from": "node1", "to": "node2"}
# The states of virtual_machine_info; `nothing` of an end that did not answer.
STATES = ("running", "paused", "inmigrate", "postmigrate", "finish-migrate", "shutdown", "absent", "nothing")
ARRIVED = {(here, "running") for here in STATES}
STAYED = {("running", there) for there in STATES if there != "running"}
LOST = {(here, there) for here in ("absent", "postmigrate") for there in ("absent", "inmigrate")}


@pytest.mark.parametrize(("here", "there"), list(itertools.product(STATES, STATES)))
def test_every_pair_of_states(here, there):
    found = FilterModule().filters()["vm_location"](MOVE, here, there)
    if (here, there) in ARRIVED:
        expected = {"node": "node2", "lost": False}
    elif (here, there) in STAYED:
        expected = {"node": "node1", "lost": False}
    elif (here, there) in LOST:
        expected = {"node": "node1", "lost": True}
    else:
        expected = {"node": "", "lost": False}
    assert found == expected


@pytest.mark.parametrize("state", STATES)
def test_no_restart_while_an_end_does_not_answer(state):
    decide = FilterModule().filters()["vm_location"]
    assert not decide(MOVE, "nothing", state)["lost"]
    assert not decide(MOVE, state, "nothing")["lost"]
