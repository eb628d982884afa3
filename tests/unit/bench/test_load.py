# SPDX-License-Identifier: Apache-2.0
"""The benches measure what their names say."""

from __future__ import annotations

from tests.bench import load


def test_every_network_of_the_load_has_rows_on_the_measured_node(tmp_path):
    rows = load.rows_of(load.plan_file(tmp_path, 4))
    networks = {row.network for row in rows} - {"", "default"}
    assert len(networks) == 4
    assert min(sum(row.network == network for row in rows) for network in networks) > 10
