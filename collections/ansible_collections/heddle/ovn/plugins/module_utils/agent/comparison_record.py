# SPDX-License-Identifier: Apache-2.0
"""Comparisons that found no difference, so that the next one with equal input has nothing to compute.

What an engine decides depends on its sources, the plan, the node, and what it reads. A record has digests of all of
these, of a comparison without a difference. The next run reads the same again; when every digest is equal, so is the
result, and it renders, decodes and compares nothing. Whatever changes the host changes what is read. There is nothing
that could be out of date: a record that does not fit, is damaged, or was lost in a reboot means a full comparison.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field

from ..common.files.atomic_file import replace_file
from ..common.serialization import digest

RECORD_FILE = "/run/heddle/compared.json"


class NotRecorded(Exception):
    """No record covers what was to be compared."""


@dataclass(frozen=True)
class ComparisonRecord:
    """The records of this host. `sources` identifies the program; without it nothing is recorded.

    With `only`, what no record covers is not compared: `holds` raises NotRecorded then.
    """

    sources: str
    path: str = RECORD_FILE
    only: bool = False
    # Names of comparisons that followed the last write of this run.
    confirmed: set[str] = field(default_factory=set)

    def key(self, *inputs: str) -> str:
        """Return the digest of what a comparison depends on besides what it reads."""
        return digest([self.sources, *inputs])

    def holds(
        self, name: str, key: str, replies_equal: Callable[[dict], bool], rendered: Callable[[], str] | None = None
    ) -> bool:  # fmt: skip
        """Whether a comparison would find no difference; `replies_equal` reads again what the recorded one read.

        With another key, such as that of another plan, the comparison is the same one if what it was made of is:
        `rendered` returns the key of that, and is called then only.
        """
        entry, equal = self._entries().get(name), False
        # Malformed content raises any of these.
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            if self.sources and (entry["key"] == key or self._same(entry, rendered)):
                equal = replies_equal(entry["read"])
            if equal and entry["key"] != key:
                self.keep(name, key, entry["read"], entry["rendered"])
        if self.only and not equal:
            raise NotRecorded(name)
        return equal

    def _same(self, entry: dict, rendered: Callable[[], str] | None) -> bool:
        return rendered is not None and not self.only and entry["rendered"] == rendered()

    def recorded(self, name: str, key: str) -> dict | None:
        """Return what the recorded comparison with this key read, as `keep` took it; None without such a record."""
        entry = self._entries().get(name)
        if not self.sources or not isinstance(entry, dict) or entry.get("key") != key:
            return None
        read = entry.get("read")
        return read if isinstance(read, dict) else None

    def keep(
        self, name: str, key: str, read: dict | None, rendered: str = "", *, confirmed: bool = False
    ) -> None:  # fmt: skip
        """Record a comparison that found no difference, and what it read; nothing when `read` is None.

        `rendered` is the key of what it was made of. `confirmed`: it followed a write of this run, which has nothing
        more to compare of it.
        """
        if confirmed:
            self.confirmed.add(name)
        entries = self._entries()
        entry = {"key": key, "rendered": rendered, "read": read}
        if not self.sources or read is None or entries.get(name) == entry:
            return
        # The record only saves time: a full disk is no reason to fail.
        with contextlib.suppress(OSError):
            text = json.dumps({**entries, name: entry})
            replace_file(self.path, text, mode=0o600, durable=False, single_writer=True)

    def _entries(self) -> dict:
        try:
            with open(self.path, encoding="utf-8") as text:
                found = json.load(text)
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
