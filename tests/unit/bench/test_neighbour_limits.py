# SPDX-License-Identifier: Apache-2.0
"""Limits of this machine's kernel that a bench raises and restores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.neighbour_limits import raised_limits

FOUND = {"gc_thresh1": "128\n", "gc_thresh2": "512\n", "gc_thresh3": "999999\n"}


@pytest.mark.parametrize(("driver", "third", "first"), [("nspawn", "999999\n", "8192"), ("uml", "999999\n", "128\n")])
def test_only_lower_limits_are_raised_and_only_for_containers(tmp_path: Path, driver, third, first):
    (tmp_path / "lab.json").write_text(json.dumps({"driver": driver}))
    folder = tmp_path / "net" / "ipv4" / "neigh" / "default"
    folder.mkdir(parents=True)
    for name, text in FOUND.items():
        (folder / name).write_text(text)
    with pytest.raises(KeyError), raised_limits(tmp_path, str(tmp_path)):
        assert (folder / "gc_thresh3").read_text() == third
        assert (folder / "gc_thresh1").read_text() == first
        raise KeyError
    assert {one.name: one.read_text() for one in folder.iterdir()} == FOUND
