# SPDX-License-Identifier: Apache-2.0
"""Steps that write to the kernel: what is noted before them."""

from __future__ import annotations

from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Change
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.step import Step, perform

CHANGE = Change("kernel", "create", "address", "eth3 192.0.2.100/32", "", {}, {})


def test_all_changes_are_noted_before_the_first_is_written():
    happened: list[str] = []
    steps = [Step(CHANGE, lambda: happened.append("written"))] * 2
    perform(steps, write=True, planned=lambda changes: happened.append(f"{len(changes)} noted"))
    assert happened == ["2 noted", "written", "written"]


def test_a_comparison_notes_nothing():
    happened: list[str] = []
    perform(
        [Step(CHANGE, lambda: happened.append("written"))], write=False, planned=lambda _changes: happened.append("")
    )
    assert not happened
