# SPDX-License-Identifier: Apache-2.0
"""What a Layer2 network becomes on one host in each stage of its upgrade, one case per stage.

`NAME.rows` is what the host named in STAGES gets. HEDDLE_RECORD=1 writes it anew.
"""

import os
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.naming import layer2_switch
from ansible_collections.heddle.ovn.plugins.module_utils.render import render_northbound
from tests.golden.test_northbound import shown
from tests.pipeline import layer2, namespace, upgrade_stage, with_gateways, workload

FOLDER = Path(__file__).parent / "layer2_upgrade"
TEXT = (
    namespace("red") + layer2("red", "net", "203.203.0.0/16", "2010:100:200::/60")
    + workload("red", "a", "node1") + workload("red", "c", "node3")
)  # fmt: skip
# Name of the case -> which nodes are upgraded, whether all was cleaned up, whose rows, in which gateway mode.
STAGES = {
    "old": ((), False, "node1", None),
    "old-shared": ((), False, "node1", "shared"),
    "old-local": ((), False, "node1", "local"),
    "mixed-on-upgraded": (("node1",), False, "node1", None),
    "mixed-on-not-upgraded": (("node1",), False, "node2", None),
    "last-before-clean-up": (("node1", "node2", "node3"), False, "node1", None),
    "final": (("node1", "node2", "node3"), True, "node1", None),
}


def rows_of(upgraded, done, node, mode=None):
    plan = upgrade_stage(TEXT, *upgraded, done=done, hosts=with_gateways(mode) if mode else None)
    return [row for row in render_northbound(plan, node) if row.network == "red_net"]


@pytest.mark.parametrize("case", STAGES)
def test_rows(case):
    found = "\n".join(sorted(shown(row) for row in rows_of(*STAGES[case])))
    expected = FOLDER / f"{case}.rows"
    if os.environ.get("HEDDLE_RECORD"):
        expected.write_text(found)
    assert found == expected.read_text()


def test_a_host_that_is_not_upgraded_has_what_it_had():
    before, after = rows_of((), False, "node2"), rows_of(("node1",), False, "node2")
    assert sorted(map(shown, before)) != []
    moved = {row.key for row in before if "red_a" in row.key} | {row.key for row in after if "red_a" in row.key}
    assert [shown(row) for row in before if row.key not in moved] == [
        shown(row) for row in after if row.key not in moved
    ]


def test_the_upgrade_ends_where_a_fresh_cluster_begins():
    fresh = rows_of((), True, "node2")
    ended = rows_of(("node1", "node2", "node3"), True, "node2")
    # Placements and tunnel keys of workloads differ; everything else is equal.
    assert {shown(row) for row in fresh if "red_" not in row.key.removeprefix("red_net")} == {
        shown(row) for row in ended if "red_" not in row.key.removeprefix("red_net")
    }
    on = layer2_switch("red_net")
    assert not [row.key for row in ended if row.key.startswith((f"stor-{on}", f"rtos-{on}")) or "upgrade" in row.key]
