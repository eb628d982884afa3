# SPDX-License-Identifier: Apache-2.0
"""When a workload is ready: thresholds, and what stays over a restart of the daemon."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.heddle.ovn.plugins.module_utils.probe_daemon.readiness import Readiness
from ansible_collections.heddle.ovn.plugins.module_utils.types.readiness_probe import Probe

PROBE = Probe("tcpSocket", "red_web", "10.0.0.3", 80, None, (), 0, 10, 1, successes=2, failures=3)


def after(results: str, probe: Probe = PROBE) -> tuple[Readiness, list[bool]]:
    """Record probes, `+` succeeded and `-` failed; return the readiness, and whether it was so after each."""
    state, found = Readiness(probe), []
    for one in results:
        state.record("" if one == "+" else "refused")
        found.append(state.ready)
    return state, found


def test_thresholds_count_what_comes_in_a_row() -> None:
    assert after("+-++--+---")[1] == [False, False, False, True, True, True, True, True, True, False]


def test_a_failure_below_the_threshold_leaves_the_report_as_it_is() -> None:
    state = after("++")[0]
    assert not state.record("refused")
    assert state.report()["message"] == ""
    assert not state.record("refused")
    assert state.record("refused")
    assert (state.report()["ready"], state.report()["message"]) == (False, "refused")


def test_the_first_probe_is_reported_whatever_it_finds() -> None:
    state = Readiness(PROBE)
    assert state.report() is None
    assert state.record("refused")
    assert state.report()["ready"] is False


def test_probes_are_quick_until_a_workload_is_ready_or_has_failed_often_enough() -> None:
    assert [after(results)[0].pause for results in ("", "+", "++", "-", "--", "---")] == [1, 1, 10, 1, 1, 10]


def test_a_restarted_daemon_goes_on_with_the_same_probe_only() -> None:
    entry = after("++")[0].report()
    assert Readiness.restored(PROBE, entry).ready
    other = replace(PROBE, port=81)
    assert Readiness.restored(other, entry) == Readiness(other)
    assert Readiness.restored(PROBE, {}) == Readiness(PROBE)
