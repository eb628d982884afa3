# SPDX-License-Identifier: Apache-2.0
"""Routing tables by name or number, as ip-rule(8) takes them (TABLEID), and by the name of a VRF device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from .protocol.rtnetlink import RT_TABLE_MAIN
from .reader import LinkState

# iproute2 reads the first file of each name; those of /etc come first.
FOLDERS = (Path("/etc/iproute2"), Path("/usr/share/iproute2"), Path("/usr/lib/iproute2"))
_FILE, _MORE = "rt_tables", "rt_tables.d"
_KNOWN = {"main": RT_TABLE_MAIN, "default": 253}


def named_table(text: str, links: Mapping[str, LinkState], folders: tuple[Path, ...] = FOLDERS) -> int | None:
    """Return the number of a table, None where the host has none of that name.

    `text` is a number, the name of a VRF device among `links`, or a name of the files `rt_tables` of iproute2.
    """
    if text.isdigit():
        return int(text)
    link = links.get(text)
    if link and link.kind == "vrf":
        return link.table
    return _KNOWN.get(text) or next((number for name, number in _names(folders) if name == text), None)


def ports_of(text: str, links: Mapping[str, LinkState]) -> list[str]:
    """Return the links that belong to the VRF device of that name; none where it is no VRF device."""
    link = links.get(text)
    return sorted(name for name, one in links.items() if one.master == text) if link and link.kind == "vrf" else []


def _names(folders: tuple[Path, ...]) -> Iterator[tuple[str, int]]:
    for folder in folders:
        for path in (folder / _FILE, *sorted((folder / _MORE).glob("*.conf"))):
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            for line in text.splitlines():
                number, _blank, name = line.partition("#")[0].strip().replace("\t", " ").partition(" ")
                if number.isdigit() and name.strip():
                    yield name.strip(), int(number)
