# SPDX-License-Identifier: Apache-2.0
"""Address pools in notebooks: which host has which block, and workloads whose addresses are of a pool."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT / "notebooks") not in sys.path:
    sys.path.insert(0, str(ROOT / "notebooks"))

from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_view import state_view  # noqa: E402
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.colors import network_colors  # noqa: E402
from heddle_notebook import Fleet, HeddleError, Recorder  # noqa: E402
from heddle_notebook.frames import Status  # noqa: E402
from tests.pipeline import nodes, stored, workload  # noqa: E402

POOL = """---
apiVersion: coil.cybozu.com/v2
kind: AddressPool
metadata: {name: routed}
spec: {blockSizeBits: 1, subnets: [{ipv4: %s}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: pooled, annotations: {coil.cybozu.com/pool: routed}}
"""


def status(subnet: str = "10.210.0.0/24") -> Status:
    """Three workloads on node1, which need two blocks, and one on node2."""
    places = ("node1", "node1", "node1", "node2")
    text = POOL % subnet + "".join(workload("pooled", f"w{number}", node) for number, node in enumerate(places))
    snapshot = stored(text, hosts=nodes("node1", "node2"))
    snapshot.revision = 1
    return Status({**state_view(snapshot), "host_states": {}, "network_states": {}})


def test_blocks_of_hosts() -> None:
    rows = status().blocks[["pool", "index", "host", "ipv4"]].to_numpy().tolist()
    assert sorted(rows) == [
        ["routed", 0, "node1", "10.210.0.0/31"],
        ["routed", 1, "node1", "10.210.0.2/31"],
        ["routed", 2, "node2", "10.210.0.4/31"],
    ]


def test_the_picture_has_the_blocks_in_the_colors_of_hosts() -> None:
    found = status()
    svg = found.pools().svg
    assert "3 of 128 blocks, 4 addresses; 10.210.0.0/24" in svg
    colors = network_colors({"networks": found.content["nodes"]})
    cells = dict(re.findall(r'fill="(#\w+)"[^>]*><title>block 2: (node2 10.210.0.4/31)</title>', svg))
    assert cells == {colors["node2"].strong: "node2 10.210.0.4/31"}
    assert svg.count(": free</title>") == 125


def test_large_pools_are_cut() -> None:
    svg = status("10.128.0.0/16").pools().svg
    assert svg.count("<title>block ") == 256
    assert "and 32512 more blocks" in svg


def test_a_workload_with_an_address_of_a_pool(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("{}")
    (tmp_path / "status.json").write_text(json.dumps(status().content))
    fleet = Fleet(tmp_path / "hosts.yml", tmp_path)
    assert fleet.address("pooled/w3") == "10.210.0.4"
    assert Recorder(fleet, "pooled/w0", "pooled/w3").address == "10.210.0.4"
    with pytest.raises(HeddleError, match=r"^pooled/w0 has no address in red_net; see"):
        fleet.address("pooled/w0", "red_net")
    with pytest.raises(HeddleError, match=r"^there is no workload pooled/w9; write NAMESPACE/NAME, as pooled/w0$"):
        fleet.address("pooled/w9")
