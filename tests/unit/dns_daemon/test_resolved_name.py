# SPDX-License-Identifier: Apache-2.0
"""The addresses of one name over time."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.dns_daemon.resolved_name import (
    GRACE_SECONDS,
    LONGEST_EMPTY_SECONDS,
    LONGEST_RETRY_SECONDS,
    LONGEST_SECONDS,
    RETRY_SECONDS,
    SHORTEST_SECONDS,
    ResolvedName,
)

ONE, TWO, SIX = "192.0.2.1", "192.0.2.2", "2001:db8::1"


@pytest.mark.parametrize(("ttl", "pause"), [(0, SHORTEST_SECONDS), (300, 300), (86400, LONGEST_SECONDS)])
def test_the_next_question_follows_the_ttl_within_limits(ttl, pause):
    assert ResolvedName().answered(4, frozenset({ONE}), ttl, 0) == pause


def test_a_name_without_an_address_is_asked_for_again_soon():
    assert ResolvedName().answered(6, frozenset(), 86400, 0) == LONGEST_EMPTY_SECONDS


def test_an_address_counts_until_its_answer_has_expired_and_a_moment_longer():
    name = ResolvedName()
    name.answered(4, frozenset({ONE}), 100, 0)
    name.answered(4, frozenset({TWO}), 100, 100)
    assert name.addresses(100 + GRACE_SECONDS - 1) == {ONE, TWO}
    assert name.addresses(100 + GRACE_SECONDS) == {TWO}
    name.answered(4, frozenset(), 100, 200)
    name.answered(4, frozenset(), 100, 200 + LONGEST_EMPTY_SECONDS)
    assert name.addresses(200 + GRACE_SECONDS) == frozenset()


def test_addresses_go_on_to_count_while_resolvers_do_not_answer():
    name = ResolvedName()
    name.answered(4, frozenset({ONE}), 100, 0)
    name.answered(6, frozenset({SIX}), 100, 0)
    now, pauses = 100.0, []
    for _time in range(50):
        pauses.append(name.failed(4, "SERVFAIL", now))
        now += pauses[-1]
    assert pauses[:3] == [RETRY_SECONDS, 2 * RETRY_SECONDS, 4 * RETRY_SECONDS]
    assert pauses[-1] == LONGEST_RETRY_SECONDS
    # The other family was not asked for meanwhile.
    assert name.addresses(now) == {ONE, SIX}
    assert name.failure == "SERVFAIL"
    name.answered(4, frozenset({ONE}), 100, now)
    assert name.failure == ""


def test_addresses_of_an_earlier_process_count_until_the_first_answer_and_a_moment_longer():
    name = ResolvedName()
    name.restored([ONE, SIX], 0)
    # Many names may wait for slow resolvers.
    assert name.addresses(10 * GRACE_SECONDS) == {ONE, SIX}
    name.answered(4, frozenset({TWO}), 300, 600)
    name.failed(6, "SERVFAIL", 600)
    assert name.addresses(600 + GRACE_SECONDS - 1) == {ONE, TWO, SIX}
    assert name.addresses(600 + GRACE_SECONDS) == {TWO, SIX}
    name.answered(6, frozenset(), 300, 605)
    name.answered(6, frozenset(), 300, 605 + LONGEST_EMPTY_SECONDS)
    assert name.addresses(605 + GRACE_SECONDS) == {TWO}


def test_a_failure_does_not_revive_addresses_that_have_expired():
    name = ResolvedName()
    name.answered(4, frozenset({ONE}), SHORTEST_SECONDS, 0)
    name.answered(4, frozenset({TWO}), 1800, SHORTEST_SECONDS)
    assert name.addresses(1000) == {TWO}
    name.failed(4, "timeout", 1805)
    assert name.addresses(1805) == {TWO}


def test_addresses_go_on_to_count_while_a_question_waits_for_others_that_time_out():
    name, now = ResolvedName(), 10 * GRACE_SECONDS
    name.answered(4, frozenset({ONE}), SHORTEST_SECONDS, 0)
    assert name.addresses(now) == {ONE}
    name.failed(4, "timeout", now)
    assert name.addresses(now) == {ONE}
    now *= 10
    assert name.addresses(now) == {ONE}
    name.answered(4, frozenset({TWO}), 300, now)
    assert name.addresses(now + GRACE_SECONDS - 1) == {ONE, TWO}
    assert name.addresses(now + GRACE_SECONDS) == {TWO}


def test_a_family_that_is_not_asked_for_any_more_is_forgotten():
    name = ResolvedName()
    name.answered(4, frozenset({ONE}), 300, 0)
    name.restored([SIX], 0)
    name.failed(6, "timeout", 0)
    name.ended(6)
    assert (name.addresses(0), name.failure) == ({ONE}, "")


def test_a_name_is_known_after_an_answer_or_a_failure_of_each_family():
    name = ResolvedName()
    assert not name.is_known({4})
    name.answered(4, frozenset(), 100, 0)
    assert (name.is_known({4}), name.is_known({4, 6})) == (True, False)
    name.failed(6, "SERVFAIL", 0)
    assert name.is_known({4, 6})
    name.ended(6)
    assert not name.is_known({4, 6})


def test_a_restored_name_is_known_if_it_had_addresses():
    name = ResolvedName()
    name.restored([], 0)
    assert not name.is_known({4})
    name.restored([ONE], 0)
    assert name.is_known({4, 6})
