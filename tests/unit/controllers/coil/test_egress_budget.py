# SPDX-License-Identifier: Apache-2.0
"""podDisruptionBudget of an Egress: how many of its routers leave their hosts in one run."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.coil.disruption import may_be_down
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import StoredObject
from tests.pipeline import nodes, stored
from tests.unit.controllers.coil.test_egress import BASE, THREE, egress, ready, routers


def racks(**changed: str) -> dict:
    labels = {"node1": "1", "node2": "1", "node3": "2", **changed}
    return {name: {**fields, "labels": {"rack": labels[name]}} for name, fields in nodes(*THREE).items()}


def text(rack: str, **more) -> str:
    return BASE + egress(replicas=2, template={"spec": {"nodeSelector": {"rack": rack}}}, **more)


@pytest.mark.parametrize(
    ("budget", "replicas", "down"),
    [
        (None, 3, None),
        ({"maxUnavailable": 1}, 3, 1),
        ({"maxUnavailable": 9}, 3, 3),
        ({"maxUnavailable": "50%"}, 3, 2),
        ({"maxUnavailable": "0%"}, 3, 0),
        ({"minAvailable": 2}, 3, 1),
        ({"minAvailable": 4}, 3, 0),
        ({"minAvailable": "50%"}, 3, 1),
        ({"minAvailable": "100%"}, 3, 0),
    ],
)
def test_numbers_and_percentages(budget, replicas, down):
    spec = {"replicas": replicas, "podDisruptionBudget": budget}
    assert may_be_down(StoredObject(kind="Egress", name="nat", spec=spec)) == down


def test_routers_leave_one_at_a_time():
    budget = {"podDisruptionBudget": {"minAvailable": 1}}
    first = stored(text("1", **budget), hosts=racks())
    assert routers(first) == {"nat-0": "node1", "nat-1": "node2"}
    second = stored(text("2", **budget), first, hosts=racks())
    assert routers(second) == {"nat-0": "node3", "nat-1": "node2"}
    assert ready(second, "Egress/internet/nat") == (
        "False", "RoutersLeave",
        "2 of 2 routers: nat-1 may not be on its host any more; podDisruptionBudget lets 1 of them be down at a time: "
        "run heddle.ovn.networks again",
    )  # fmt: skip
    third = stored(text("2", **budget), second, hosts=racks())
    assert routers(third) == {"nat-0": "node3", "nat-1": "node3"}
    assert ready(third, "Egress/internet/nat")[:2] == ("True", "RoutersRun")
    assert stored(text("2", **budget), third, hosts=racks()) == third


def test_without_a_budget_all_leave_at_once():
    first = stored(text("1"), hosts=racks())
    assert set(routers(stored(text("2"), first, hosts=racks())).values()) == {"node3"}


def test_a_budget_of_zero_keeps_them_and_what_happens_is_no_decision():
    budget = {"podDisruptionBudget": {"maxUnavailable": 0}}
    first = stored(text("1", **budget), hosts=racks())
    kept = stored(text("2", **budget), first, hosts=racks())
    assert routers(kept) == routers(first)
    assert ready(kept, "Egress/internet/nat")[2].endswith("lets 0 of them be down at a time: raise it")
    # A host that leaves the inventory.
    rest = {name: one for name, one in racks().items() if name != "node1"}
    assert routers(stored(text("2", **budget), first, hosts=rest)) == {"nat-0": "node3", "nat-1": "node2"}


@pytest.mark.parametrize("lost", ["gone", "without tunnels"])
def test_routers_that_are_lost_in_the_same_run_count_as_down(lost):
    """Both would be down at once otherwise."""
    budget = {"podDisruptionBudget": {"minAvailable": 1}}
    first = stored(text("1", **budget), hosts=racks())
    assert routers(first) == {"nat-0": "node1", "nat-1": "node2"}
    hosts = racks()
    if lost == "gone":
        del hosts["node1"]
    else:
        hosts["node1"]["kernel_lacks"] = ["fou"]
    second = stored(text("2", **budget), first, hosts=hosts)
    assert routers(second) == {"nat-0": "node3", "nat-1": "node2"}
    assert ready(second, "Egress/internet/nat")[1] == "RoutersLeave"
    assert routers(stored(text("2", **budget), second, hosts=hosts)) == {"nat-0": "node3", "nat-1": "node3"}
