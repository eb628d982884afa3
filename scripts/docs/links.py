# SPDX-License-Identifier: Apache-2.0
"""Finds links in the project's Markdown that lead nowhere: files, headings, and files that the text names.

Nothing is fetched; addresses of other sites are not checked.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
# A name in code that is a path of the project: with a folder, of a kind of file that is kept in git.
NAMED = re.compile(r"`((?:[\w.-]+/)+[\w.@-]+\.(?:md|py|yml|txt|toml|ipynb|j2|ovsschema))`")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
# Written while the project runs, or by its users.
GENERATED = ("report/", "backup/", "build/", "manifests/", "group_vars/", "host_vars/")
# Words in capitals stand for names that the reader chooses.
_PLACEHOLDER = re.compile(r"(?:^|[/_.])(?!README)[A-Z]{3,}")
# Paths in the text begin at one of these.
BASES = ("", "collections/ansible_collections/heddle/ovn", "collections/ansible_collections/heddle/ovn/plugins",
         "collections/ansible_collections/heddle/ovn/plugins/module_utils", "tests", "docs")  # fmt: skip


def broken(page: Path, root: Path) -> Iterator[str]:
    """Yield a line for each link of a page that leads nowhere."""
    text = page.read_text(encoding="utf-8")
    plain = _FENCE.sub(lambda found: "\n" * found.group().count("\n"), text)
    for number, line in enumerate(plain.splitlines(), 1):
        place = f"{page.relative_to(root)}:{number}"
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            reason = _reason(page, target)
            if reason:
                yield f"{place}: {target}: {reason}"
        for name in NAMED.findall(line):
            if not name.startswith(GENERATED) and not _PLACEHOLDER.search(name) and not _exists(name, page, root):
                yield f"{place}: {name}: there is no such file"


def _reason(page: Path, target: str) -> str:
    if re.match(r"[a-z]+:", target):
        return ""
    path, _hash, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return "there is no such file"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return "there is no such heading"
    return ""


def _exists(name: str, page: Path, root: Path) -> bool:
    return any((base / name).exists() for base in [page.parent, *(root / folder for folder in BASES)])


@functools.cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as GitHub and MyST form them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    seen: dict[str, int] = {}
    found = set()
    for heading in _HEADING.findall(text):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.add(f"{name}-{count}" if count else name)
    return frozenset(found)
