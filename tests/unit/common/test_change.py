# SPDX-License-Identifier: Apache-2.0
"""The list of changes as text and as Ansible's diff."""

from __future__ import annotations

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.common.change import (
    HIDDEN,
    Change,
    Foreign,
    Outcome,
    render,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
PLAIN = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc-: #"), inner, max_size=4)
)
CHANGES = (
    Change("DB", "create", "T", "new", "net", {}, {"a": 1}),
    Change("DB", "update", "T", "old", "", {"a": 1}, {"a": 2}),
    Change("DB", "delete", "T", "gone", "net", {"a": 1}, {}),
)


def test_summary_and_sum():
    outcome = Outcome(CHANGES[:1]) + Outcome(CHANGES[1:], (Foreign("DB", "T", "x", "uuid"),))
    assert outcome.changed
    assert outcome.summary() == {"create": 1, "update": 1, "delete": 1, "foreign": 1}
    assert not Outcome((), outcome.foreign).changed


def test_diff_shows_one_entry_per_object():
    assert Outcome(CHANGES).diff() == [
        {"before_header": "DB T new", "after_header": "create DB T new (network net)", "before": "", "after": "a: 1\n"},
        {"before_header": "DB T old", "after_header": "update DB T old", "before": "a: 1\n", "after": "a: 2\n"},
        {
            "before_header": "DB T gone",
            "after_header": "delete DB T gone (network net)",
            "before": "a: 1\n",
            "after": "",
        },
    ]


def test_secrets_are_hidden():
    text = render({"options": {"psk": "s3cret", "remote_ip": "192.0.2.1"}, "private_key": "/k", "token": "s3cret"})
    assert "s3cret" not in text
    assert yaml.safe_load(text) == {
        "options": {"psk": HIDDEN, "remote_ip": "192.0.2.1"},
        "private_key": HIDDEN,
        "token": HIDDEN,
    }


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(st.text("abcnoyesNO01.:- "), PLAIN, max_size=5))
def test_text_is_yaml_and_stable(value):
    text = render(value)
    assert yaml.safe_load(text) == value
    assert text == render(dict(reversed(value.items())))


def test_sets_are_sorted():
    assert render({"ports": {"b", "a"}, "none": set()}) == "none: []\nports:\n  - a\n  - b\n"
