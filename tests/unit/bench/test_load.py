# SPDX-License-Identifier: Apache-2.0
"""The benches measure what their names say."""

from __future__ import annotations

import sys

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.types.ovsdb_row import Row
from tests.bench import load


def networks_of(rows: list[Row], kind: str) -> list[str]:
    """Return the network of each switch port of a type, without the default one."""
    return sorted(row.network for row in rows if row.columns.get("type") == kind and row.network != "default")


@pytest.mark.parametrize(("options", "gateways"), [([], True), (["--without-gateways"], False)])
def test_every_network_of_the_load_has_rows_on_the_measured_node(tmp_path, monkeypatch, options, gateways):
    path = tmp_path / "plan.json"
    monkeypatch.setattr(sys, "argv", ["load", str(path), "--networks", "4", *options])
    load.main()
    rows = load.rows_of(path)
    networks = sorted({row.network for row in rows} - {"", "default"})
    assert len(networks) == 4
    assert min(sum(row.network == network for row in rows) for network in networks) > 10
    # The port of an external switch on the provider network.
    assert networks_of(rows, "localnet") == (networks if gateways else [])
