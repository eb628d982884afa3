# SPDX-License-Identifier: Apache-2.0
"""The walkthroughs as files, and what `scripts/walkthroughs.py` runs of them; they are run on labs."""

from __future__ import annotations

import ast

import nbformat
import pytest

from scripts import walkthroughs

PAGES = {path.stem: nbformat.read(path, as_version=4) for path in sorted(walkthroughs.SOURCES.glob("*.ipynb"))}


def test_all_are_run() -> None:
    assert sorted([*walkthroughs.LONG, *walkthroughs.TUNNELS]) == list(PAGES)
    assert set(walkthroughs.FAST) <= set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_parameters_claims_and_prose(name: str) -> None:
    page = PAGES[name]
    code = [cell for cell in page.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    (parameters,) = (cell for cell in code if "parameters" in cell.metadata.get("tags", ()))
    known = {target.id for one in ast.parse(parameters.source).body for target in one.targets}
    assert {"inventory", "report", *walkthroughs.PARAMETERS.get(name, {})} <= known
    nodes = [node for cell in code for node in ast.walk(ast.parse(cell.source))]
    assert any(isinstance(node, ast.Assert) for node in nodes)
    assert page.cells[0].source.startswith("# ")
