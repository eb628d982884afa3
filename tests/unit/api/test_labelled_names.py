# SPDX-License-Identifier: Apache-2.0
"""Names found by an index of labels are those that each selector matches by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.api.selector import LabelledNames, matches

KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("xyz")
LABELS = st.dictionaries(st.sampled_from(["n1", "n2", "n3", "n4", "n5"]), st.dictionaries(KEYS, VALUES))
EXPRESSION = st.one_of(
    st.fixed_dictionaries({
        "key": KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(VALUES, min_size=1),
    }),
    st.fixed_dictionaries({
        "key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"]), "values": st.just([]),
    }),
)  # fmt: skip
SELECTOR = st.fixed_dictionaries({
    "matchLabels": st.dictionaries(KEYS, VALUES), "matchExpressions": st.lists(EXPRESSION, max_size=2),
})  # fmt: skip


@given(LABELS, SELECTOR)
def test_selected_names_are_those_that_match_in_their_order(labels: dict, selector: dict) -> None:
    expected = tuple(name for name, own in labels.items() if matches(selector, own))
    assert LabelledNames(labels).selected(selector) == expected
