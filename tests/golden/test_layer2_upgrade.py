# SPDX-License-Identifier: Apache-2.0
"""What a Layer2 network becomes on one host in each stage of its upgrade, one case per stage.

`NAME.rows` is what the host named in STAGES gets. HEDDLE_RECORD=1 writes it anew.
"""

import os
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import layer2_switch
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from tests.golden.test_northbound import shown
from tests.pipeline import layer2, namespace, upgrade_stage, with_gateways, workload

SWITCH = layer2_switch("red_net")
FOLDER = Path(__file__).parent / "layer2_upgrade"
TEXT = (
    namespace("red") + layer2("red", "net", "203.203.0.0/16", "2010:100:200::/60")
    + workload("red", "a", "node1") + workload("red", "c", "node3")
)  # fmt: skip
# Name of the case -> which nodes are upgraded, whether all was cleaned up, whose rows, in which gateway mode.
ALL = ("node1", "node2", "node3")
STAGES = {
    f"{stage}-{mode}" if mode else stage: (upgraded, done, node, mode)
    for stage, upgraded, done, node in (
        ("old", (), False, "node1"),
        ("mixed-on-upgraded", ("node1",), False, "node1"),
        ("mixed-on-not-upgraded", ("node1",), False, "node2"),
        ("last-before-clean-up", ALL, False, "node1"),
        ("final", ALL, True, "node1"),
    )
    for mode in (None, "shared", "local")
}


def rows_of(upgraded, done, node, mode=None, text=TEXT):
    plan = upgrade_stage(text, *upgraded, done=done, hosts=with_gateways(mode) if mode else None)
    return [row for row in render_northbound(plan, node) if row.network == "red_net"]


@pytest.mark.parametrize("case", STAGES)
def test_rows(case):
    found = "\n".join(sorted(shown(row) for row in rows_of(*STAGES[case])))
    expected = FOLDER / f"{case}.rows"
    if os.environ.get("HEDDLE_RECORD"):
        expected.write_text(found)
    assert found == expected.read_text()


def test_node_before_its_upgrade_is_unchanged():
    before, after = rows_of((), False, "node2"), rows_of(("node1",), False, "node2")
    assert sorted(map(shown, before)) != []
    moved = {row.key for row in before if "red_a" in row.key} | {row.key for row in after if "red_a" in row.key}
    assert [shown(row) for row in before if row.key not in moved] == [
        shown(row) for row in after if row.key not in moved
    ]


@pytest.mark.parametrize("text", [TEXT, TEXT.replace(", '2010:100:200::/60'", "")], ids=["dual", "ipv4"])
def test_upgraded_cluster_equals_fresh_cluster(text):
    fresh, ended = (
        {shown(row) for row in rows_of(upgraded, True, "node2", text=text) if "red.net_red_" not in row.key}
        for upgraded in ((), ("node1", "node2", "node3"))
    )
    # Except for one option of one port, for running workloads that have the join subnet as on-link.
    assert len(ended - fresh) == (1 if "2010" in text else 0)
    assert not [
        row
        for row in ended
        if f"stor-{SWITCH}" in row or f"rtos-{SWITCH}" in row.replace("trtos", "") or "upgrade" in row
    ]
