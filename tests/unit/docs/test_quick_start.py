# SPDX-License-Identifier: Apache-2.0
"""The example of docs/quick-start.md can be added to the manifests of the lab as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from tests.pipeline import decide

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = re.compile(r"```yaml\n(.*?)```", re.DOTALL)


def test_the_example_is_admitted_beside_the_manifests_of_the_lab() -> None:
    """Templates of the lab have no namespaces and no networks."""
    (example,) = EXAMPLE.findall((ROOT / "docs" / "quick-start.md").read_text(encoding="utf-8"))
    directory = ROOT / "inventories" / "lab" / "manifests"
    lab = [path.read_text(encoding="utf-8") for path in sorted(directory.rglob("*.yml"))]
    after, problems = decide("---\n".join([*lab, example]))
    assert problems == []
    assert {("green", "web"), ("green", "database")} <= {
        (workload.namespace, workload.name) for workload in after.of_kind("Workload")
    }
