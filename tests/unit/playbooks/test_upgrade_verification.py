# SPDX-License-Identifier: Apache-2.0
"""What is verified after each step of the Layer2 upgrade: the real playbook and roles, with results of our own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import host_plan
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import Selection
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.prober import Expectations
from tests.pipeline import layer2, namespace, nodes, plan_of, workload

ROOT = Path(__file__).resolve().parents[3]


def test_each_batch_repeats_its_own_questions(upgrade):
    """What an earlier batch asked again is not the answer to a question that is lost in a later one."""
    text = namespace("red") + layer2("red", "net", "10.0.0.0/24")
    plan = plan_of(text + workload("red", "a", "node1") + workload("red", "b", "node1"), hosts=nodes("node1"))
    asked = Expectations.of(plan, "node1", {}, Selection())
    lost = next(number for number, row in enumerate(asked.rows) if row.reach and row.network == "red_net")
    answers = [
        [number, row.target, row.network, None, 1.0, True, False] for number, row in enumerate(asked.rows) if row.reach
    ]
    found = {"questions": asked.fingerprint, "unsent": [], "untested": [], "slowest": 1.0}
    first = {**found, "answers": [one for one in answers if one[0] != lost]}
    again = {**found, "answers": [one for one in answers if one[0] == lost], "again": [[lost, 1, 0.0, 0.0, 0, True]]}
    own = host_plan(plan, "node1")
    more = {"problems": [], "document": pack(own), "digest": own["digest"]}
    probed = {"problems": [], "unanswered": 1}
    results = {
        "started": more,
        "probed": {**probed, "record": pack(first)},
        "confirmed": {**probed, "record": pack(again)},
        "stopped": {"received": pack([])},
    }
    command, environment, steps = upgrade([["node1"], ["node1"]], {"reachability": results}, heddle_upgrade_verify=True)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    names = [state for _moment, state, _nodes in steps("reachability")]
    # Before anything changes, after both batches, and after the clean-up.
    assert names == 4 * ["started", "probed", "confirmed", "stopped"]
