# SPDX-License-Identifier: Apache-2.0
"""Generated pages are up to date, and links of all pages lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from scripts.docs.__main__ import LABELS
from scripts.docs.kinds import described_fields
from scripts.docs.links import anchors, broken
from scripts.docs.pages import PAGES
from scripts.docs.support import lab_networks, verified_modes

ROOT = Path(__file__).resolve().parents[3]
TEXTS = sorted(
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout.split()
)  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str):
    """HEDDLE_RECORD=1 writes it."""
    page = ROOT / "docs" / name
    found = PAGES[name]()
    if os.environ.get("HEDDLE_RECORD") == "1":
        page.write_text(found, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == found


@pytest.mark.parametrize("page", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path):
    assert list(broken(page, ROOT)) == []


def test_broken_links_are_found(tmp_path: Path):
    other, page = tmp_path / "other.md", tmp_path / "page.md"
    other.write_text("# One `two`, three\n\n```\n# no heading\n```\n\n## A\n## A\n")
    page.write_text(
        "[a](other.md#one-two-three) [b](other.md#a-1) [c](https://example.com/x) [d](#here)\n"
        "[e](none.md) [f](other.md#no-heading) [g](#nowhere)\n`docs/none.md` `report/x.md` `[h](none.md)`\n\n# Here\n"
    )
    assert list(broken(page, tmp_path)) == [
        "page.md:2: none.md: there is no such file",
        "page.md:2: other.md#no-heading: there is no such heading",
        "page.md:2: #nowhere: there is no such heading",
        "page.md:3: docs/none.md: there is no such file",
    ]
    assert anchors(other) == {"one-two-three", "a", "a-1"}


def test_the_support_matrix_has_what_the_stages_run():
    assert all(verified_modes().values())
    assert {topology for topology, _role in lab_networks()} == {"Layer2", "Layer3", "Localnet"}


def test_every_field_of_a_manifest_is_described():
    """In scripts/docs/fields.yml."""
    missing, unused = described_fields()
    assert not missing, "without a description"
    assert not unused, "no such field"


def test_the_collection_has_all_pages():
    shipped = ROOT / "collections" / "ansible_collections" / "heddle" / "ovn" / "docs"
    assert {page.name: page.resolve() for page in shipped.iterdir()} == {
        page.name: page for page in (ROOT / "docs").glob("*.md")
    }, "link a new page: ln -s ../../../../../docs/PAGE collections/ansible_collections/heddle/ovn/docs/"


def test_every_page_is_in_the_index():
    listed = set((ROOT / "docs" / "index.md").read_text(encoding="utf-8").split())
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert not pages - listed, "add it to docs/index.md"


def test_documented_modules_of_ansible_have_a_label():
    plugins = ROOT / "collections" / "ansible_collections" / "heddle" / "ovn" / "plugins"
    texts = [path.read_text(encoding="utf-8") for path in plugins.rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"\bM\((ansible\.builtin\.\w+)\)", text)}
    assert named
    missing = {name for name in named if f"ansible_collections.{name}_module" not in LABELS}
    assert not missing, "add it to LABELS in scripts/docs/__main__.py"
