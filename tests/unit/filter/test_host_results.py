# SPDX-License-Identifier: Apache-2.0
"""Results of several hosts put together: hosts that were not asked, failed before, or did not answer."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.filter.host_results import FilterModule
from ansible_collections.heddle.ovn.plugins.filter.readiness_hosts import FilterModule as ReadinessFilters

HOSTVARS = {
    "answered": {"found": {"stdout": "25.03", "digest": "1"}},
    "failed": {"found": {"failed": True, "msg": "no"}},
    "unreachable": {"found": {"unreachable": True, "msg": "no route"}},
    "silent": {},
    "refused": {"tried": {"failed": True, "msg": "no bridge", "refused": {"red": "a port"}}},
    "passed": {"tried": {"failed": False, "changes": {}}},
}
ALL = list(HOSTVARS)


def host_results(*arguments, **options):
    return FilterModule().filters()["host_results"](HOSTVARS, *arguments, **options)


def test_hosts_without_a_result_are_left_out():
    assert list(host_results(ALL, "found")) == ["answered", "failed", "unreachable"]
    assert list(host_results(ALL, "found", reached=True)) == ["answered", "failed"]


def test_a_default_is_for_all_that_have_none():
    found = host_results(ALL, "found", attribute="stdout", default="")
    assert found == {name: "25.03" if name == "answered" else "" for name in ALL}


def test_a_part_that_is_missing_leaves_the_host_out():
    assert host_results(ALL, "found", attribute="stdout") == {"answered": "25.03"}


@pytest.mark.parametrize("within", [(), ("refused", "passed", "silent")])
def test_what_a_task_before_failed_with_stands_for_the_result(within):
    found = host_results(ALL, "found", attempt="tried", within=within)
    assert found["answered"] == HOSTVARS["answered"]["found"]
    assert found["refused"] == {"failed": True, "msg": "no bridge", "refused": {"red": "a port"}}
    assert found["passed"] == found["silent"] == {}


def test_a_result_of_an_earlier_task_counts_until_a_later_one_has_run():
    hostvars = {
        "early": {"before": {"digest": "1"}},
        "both": {"before": {"digest": "1"}, "found": {"digest": "2"}},
        "failed": {"before": {"digest": "1"}, "found": {"failed": True, "msg": "no"}},
        "unreachable": {"before": {"digest": "1"}, "found": {"unreachable": True}},
        "neither": {"before": {"other": "1"}},
    }
    collect = FilterModule().filters()["host_results"]
    found = collect(hostvars, list(hostvars), "found", before="before", attribute="digest", attempt="found")
    failed = {"failed": True, "msg": "no", "refused": {}}
    assert found == {"early": "1", "both": "2", "failed": failed, "unreachable": {}, "neither": {}}


def test_a_host_beyond_the_limit_was_not_asked():
    found = host_results(["silent", "refused"], "found", attempt="tried", within=["silent"])
    assert found == {"silent": {}, "refused": {"asked": False}}


def test_readiness_gets_networks_of_what_differs_and_nothing_more():
    audits = {
        "drifted": {
            "digest": "1", "problems": ["a"], "stopped": ["ovn-northd"], "foreign": [1],
            "drift": [{"network": "red", "found": [1]}, {"network": "blue"}, {"network": "red", "column": "x"}],
        },
        "silent": {},
        "unasked": {"asked": False},
    }  # fmt: skip
    found = ReadinessFilters().filters()["readiness_hosts"](audits)
    empty = {"failed": False, "msg": "", "refused": {}, "unreachable": False, "paths": []}
    assert found == {
        "drifted": {
            "asked": True, "digest": "1", "problems": ["a"], "stopped": ["ovn-northd"], **empty,
            "drift": [{"network": "red"}, {"network": "blue"}],
        },
        "silent": {},
        "unasked": {"asked": False, "digest": "", "problems": [], "stopped": [], "drift": [], **empty},
    }  # fmt: skip
