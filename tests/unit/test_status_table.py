# SPDX-License-Identifier: Apache-2.0
"""How a network's status follows from what its hosts have."""

import pytest

from ansible_collections.heddle.ovn.plugins.filter.status_table import host_status, network_status, status_table
from tests.pipeline import layer2, namespace, plan_of, workload

GOOD = {"digest": "d", "drift": [], "problems": []}
DRIFTED = {**GOOD, "drift": [{"network": "red_net"}]}


@pytest.mark.parametrize(
    ("audit", "status"),
    [
        (GOOD, "ready"),
        (DRIFTED, "drifted"),
        ({**GOOD, "digest": "old"}, "behind"),
        ({**GOOD, "problems": ["no database"]}, "not installed"),
        ({"failed": True, "msg": "no plan"}, "not installed"),
        ({"unreachable": True}, "no answer"),
        ({}, "no answer"),
    ],
)
def test_host_status(audit, status):
    assert host_status("d", audit) == status


def test_a_network_is_ready_when_every_host_has_it():
    assert network_status("red_net", "d", {"n1": GOOD, "n2": GOOD}) == "Ready"
    assert network_status("red_net", "d", {"n1": GOOD, "n2": DRIFTED}) == "n2 drifted"
    assert network_status("blue_net", "d", {"n1": GOOD, "n2": DRIFTED}) == "Ready"
    shared = {**GOOD, "drift": [{"network": ""}]}
    assert network_status("blue_net", "d", {"n1": shared, "n2": {}}) == "n1 drifted, n2 no answer"


def test_the_tables_show_ids_keys_and_addresses():
    plan = plan_of(namespace("red") + layer2("red", "net", "10.0.0.0/24") + workload("red", "w", "node1"))
    audits = {name: {**GOOD, "digest": plan["digest"]} for name in plan["nodes"]}
    text = status_table(plan, audits)
    assert "Networks (2)" in text
    assert "red_net   1  Layer2    Primary  16711684 16715779  10.0.0.0/24" in text
    assert "red/w     node1  ovn-udn1   red_net  10.0.0.3/24" in text
    assert text.count("Ready") == 2
    assert all(line == line.rstrip() for line in text.splitlines())
