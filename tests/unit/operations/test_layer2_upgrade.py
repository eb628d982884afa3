# SPDX-License-Identifier: Apache-2.0
"""Which releases of OVN the upgrade to the transit router needs."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.operations.layer2_upgrade import release_blockers

NBCTL = "ovn-nbctl {}\nOpen vSwitch Library 3.5.1\nDB Schema 7.11.0\n"


@pytest.mark.parametrize("release", ["25.03.0", "25.03.2", "25.09", "26.01"])
def test_newer_releases_are_not_in_the_way(release):
    assert release_blockers({"node1": NBCTL.format(release)}) == []


@pytest.mark.parametrize(("release", "shown"), [("24.09.1", "24.09"), ("25.02", "25.02"), ("9.10", "9.10")])
def test_older_releases_are(release, shown):
    (text,) = release_blockers({"node1": NBCTL.format(release)})
    assert text == f"node node1: its OVN {shown} knows no transit routers; 25.03 is the first that does"


def test_each_node_that_does_not_answer_is_named():
    found = release_blockers({"node1": "", "node2": NBCTL.format("25.03"), "node3": "command not found"})
    assert [line.partition(": ")[0] for line in found] == ["node node1", "node node3"]
    assert all("is left out by --limit" in line and "run this without a limit" in line for line in found)
