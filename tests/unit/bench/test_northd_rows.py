# SPDX-License-Identifier: Apache-2.0
"""Each kind of row occurs in the load, and rows without it refer to nothing that is not there."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.types.ovsdb_row import Ref, Row
from tests.bench import load, northd_rows
from tests.pipeline import plan_of

ROWS = render_northbound(plan_of(northd_rows.manifests(2), hosts=load.nodes(gateways=True)), load.NODE)


def references(row: Row) -> set[tuple[str, str]]:
    """Return what a row refers to, and what holds it."""
    values = [one for value in row.columns.values() for one in (value if isinstance(value, set) else (value,))]
    found = {(one.table, one.key) for one in values if isinstance(one, Ref)}
    return found | ({(row.parent.table, row.parent.key)} if row.parent else set())


@pytest.mark.parametrize("kind", northd_rows.KINDS)
def test_a_kind_is_left_out_of_networks_only(kind: str):
    matches = northd_rows.KINDS[kind]
    assert any(map(matches, ROWS))
    left = northd_rows.without(ROWS, matches)
    assert left != ROWS
    assert [row for row in left if northd_rows.is_common(row)] == [row for row in ROWS if northd_rows.is_common(row)]
    names = {(row.table, row.key) for row in left}
    networks = [row for row in left if not northd_rows.is_common(row)]
    assert all(references(row) <= names for row in networks)
    gone = {(row.table, row.key) for row in ROWS if matches(row)}
    assert not any(references(row) & gone for row in networks)
