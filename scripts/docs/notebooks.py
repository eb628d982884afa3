# SPDX-License-Identifier: Apache-2.0
"""The walkthroughs as pages of the documentation: the copies that were executed last, else the notebooks themselves."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "notebooks" / "walkthroughs"
_HEAD = """# Walkthroughs

Notebooks that operate a fleet ([notebooks.md](notebooks.md)), as they ran last on the machine that built this site.

| walkthrough | |
|---|---|
"""


def write_pages(target: Path) -> str:
    """Write a page for each walkthrough and return the page that lists them, in Markdown."""
    executed = Path(os.environ.get("LAB_REPORT") or ROOT / "report") / "walkthroughs"
    # Nothing is loaded from other sites.
    exporter = HTMLExporter(mathjax_url="", require_js_url="", jquery_url="", mermaid_js_url="", widget_renderer_url="")
    target.mkdir(parents=True)
    rows = []
    for source in sorted(SOURCES.glob("*.ipynb")):
        ran = executed / source.name
        notebook = nbformat.read(ran if ran.exists() else source, as_version=4)
        # The state of widgets would be drawn by a script of another site; progress is plain text in executed copies.
        notebook.metadata.pop("widgets", None)
        notebook.metadata.setdefault("language_info", {})["pygments_lexer"] = "python"
        text, _resources = exporter.from_notebook_node(notebook)
        (target / f"{source.stem}.html").write_text(text, encoding="utf-8")
        title = notebook.cells[0].source.partition("\n")[0].removeprefix("# ")
        state = "executed" if ran.exists() else "not executed"
        rows.append(f'| <a href="walkthroughs/{source.stem}.html">{title}</a> | {state} |\n')
    return _HEAD + "".join(rows)
