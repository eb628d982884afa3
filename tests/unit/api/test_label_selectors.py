# SPDX-License-Identifier: Apache-2.0
"""Which labels a selector matches (Kubernetes LabelSelector). Its mistakes are in tests/golden/errors/selector.yml."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import matches


def expression(key: str, operator: str, *values: str) -> dict:
    """A selector with one expression."""
    return {"matchLabels": {}, "matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ({"matchLabels": {}, "matchExpressions": []}, {}, True),
        ({"matchLabels": {"a": "1"}, "matchExpressions": []}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}, "matchExpressions": []}, {"a": "2"}, False),
        ({"matchLabels": {"a": "1"}, "matchExpressions": []}, {}, False),
        ({"matchLabels": {"a": ""}, "matchExpressions": []}, {}, False),
        ({"matchLabels": {"a": "1", "b": "2"}, "matchExpressions": []}, {"a": "1"}, False),
        (expression("a", "In", "1", "2"), {"a": "2"}, True),
        (expression("a", "In", "1", "2"), {"a": "3"}, False),
        (expression("a", "In", "1"), {}, False),
        (expression("a", "NotIn", "1"), {"a": "1"}, False),
        (expression("a", "NotIn", "1"), {"a": "2"}, True),
        (expression("a", "NotIn", "1"), {}, True),
        (expression("a", "Exists"), {"a": ""}, True),
        (expression("a", "Exists"), {}, False),
        (expression("a", "DoesNotExist"), {"a": ""}, False),
        (expression("a", "DoesNotExist"), {}, True),
        ({**expression("a", "Exists"), "matchLabels": {"b": "2"}}, {"a": "1"}, False),
        ({**expression("a", "Exists"), "matchLabels": {"b": "2"}}, {"a": "1", "b": "2"}, True),
    ],
)
def test_matches(selector: dict, labels: dict, expected: bool) -> None:
    assert matches(selector, labels) is expected


def test_unknown_operator_does_not_match() -> None:
    with pytest.raises(ValueError, match="unknown operator Near"):
        matches(expression("a", "Near"), {})
