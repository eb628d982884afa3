# SPDX-License-Identifier: Apache-2.0
"""The modules `audit` and `reachability` by their own entry, on a machine without any of Heddle's services."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import pack, unpack
from ansible_collections.heddle.ovn.plugins.module_utils.verify.audit import compare
from tests.module_entry import run_module
from tests.pipeline import layer2, namespace, plan_of, workload

PLAN = plan_of(namespace("nowhere") + layer2("nowhere", "net", "10.0.0.0/24") + workload("nowhere", "w1", "node1"))


def reachability(home: Path, **arguments: object) -> dict:
    """Run the module on this machine with check mode and return its result."""
    return run_module("reachability", home, **{"document": pack(PLAN), "node": "node1", **arguments})


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_reachability_check_mode_reports_actions_and_missing_parts(tmp_path: Path) -> None:
    missing = "nowhere/w1: there is no network namespace nowhere_w1"
    assert reachability(tmp_path, state="started")["changed"]
    assert not reachability(tmp_path, state="stopped")["changed"]
    others = plan_of(
        namespace("nowhere")
        + layer2("nowhere", "net", "10.0.0.0/24")
        + workload("nowhere", "w1", "node1")
        + workload("nowhere", "w2", "node2")
    )
    probed = reachability(tmp_path, state="probed", timeout=1, document=pack(others))
    assert (probed["changed"], unpack(probed["record"])["answers"], probed["problems"]) == (False, [], [missing])


def test_a_node_that_is_not_in_the_plan_is_a_clear_error(tmp_path: Path) -> None:
    elsewhere = {"document": pack(PLAN), "node": "elsewhere"}
    results = [
        run_module("audit", tmp_path, **elsewhere),
        run_module("reachability", tmp_path, **elsewhere, state="probed"),
    ]
    expected = "node elsewhere is not in the plan; it has node1, node2, node3"
    assert [result["msg"] for result in results] == [expected, expected]


def test_unreadable_parts_are_problems_and_no_drift(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NORTHBOUND_REMOTE", "SOUTHBOUND_REMOTE", "VSWITCH_REMOTE"):
        monkeypatch.setattr(compare, name, f"unix:{tmp_path / name}")
    monkeypatch.setattr(compare, "stopped_of", lambda _plan: {"ovn-northd": "ovn-northd does not run"})
    result = compare.Comparison(PLAN, "node1").result()
    assert result["stopped"] == ["ovn-northd"]
    assert result["problems"] == [
        "ovn-northd does not run",
        *(
            f"unix:{tmp_path / name}: cannot connect: No such file or directory"
            for name in ("VSWITCH_REMOTE", "NORTHBOUND_REMOTE", "SOUTHBOUND_REMOTE")
        ),
    ]
    assert (result["drift"], result["causes"], result["foreign"]) == ([], [], [])
    assert result["digest"] == PLAN["digest"]
    assert result["checked"] > len(compare.Comparison(PLAN, "node1").northbound_rows)


ALL_PARTS = ["northbound", "southbound", "ports", "gateway", "endpoints", "virtual_machines"]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ((), []), (("OVN_Northbound",), ["northbound"]), (("OVN_Northbound", "openflow"), ["northbound", "gateway"]),
        (("kernel", "Open_vSwitch"), ["ports", "gateway", "endpoints", "virtual_machines"]),
        (("hypervisor",), ["virtual_machines"]), (("unknown",), ALL_PARTS),
        ((compare.EVERYTHING,), ALL_PARTS),
    ],
)  # fmt: skip
def test_after_a_run_only_what_it_has_written_to_is_read_again(monkeypatch, written, read) -> None:
    seen: list[str] = []
    for name in ALL_PARTS:
        part = lambda _self, name=name: seen.append(name) or Outcome()  # noqa: E731
        monkeypatch.setattr(compare.Comparison, f"_{name}", part)
    monkeypatch.setattr(compare, "stopped_of", lambda _plan: {})
    found = compare.Comparison(PLAN, "node1").summary(written=frozenset(written), chassis=False)
    assert (seen, found["digest"]) == (read, PLAN["digest"])
