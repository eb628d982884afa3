# SPDX-License-Identifier: Apache-2.0
"""tests/golden/errors: each NAME.yml has an error, NAME.txt is exactly the message to the user.

HEDDLE_RECORD=1 writes the texts; read their diff before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests

CASES = Path(__file__).parents[2] / "golden" / "errors"


@pytest.mark.parametrize("manifest", sorted(CASES.glob("*.yml")), ids=lambda path: path.stem)
def test_exact_message(manifest: Path) -> None:
    _resources, problems = read_manifests([(manifest.name, manifest.read_text())])
    messages = "".join(f"{problem}\n" for problem in problems)
    expected = manifest.with_suffix(".txt")
    if os.environ.get("HEDDLE_RECORD") == "1":
        expected.write_text(messages)
    assert problems
    assert messages == expected.read_text()


def test_every_text_has_its_manifest() -> None:
    assert {path.stem for path in CASES.glob("*.txt")} == {path.stem for path in CASES.glob("*.yml")}
