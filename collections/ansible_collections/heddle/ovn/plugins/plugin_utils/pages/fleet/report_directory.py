# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads what is there of a report."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

PAGE = "index.html"


class ReportDirectory:
    """The files of one directory; `problems` has a line for each that cannot be read.

    `texts` has, by name, the texts of files that are about to be written there.
    """

    def __init__(self, directory: Path, texts: dict[str, str] | None = None) -> None:
        self.directory, self._texts = directory, texts or {}
        self.problems: list[str] = []

    def read(self, name: str) -> dict | None:
        """Return the content of a JSON file, None if it is missing or cannot be read."""
        try:
            text = self._texts.get(name)
            content = json.loads((self.directory / name).read_text(encoding="utf-8") if text is None else text)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.problems.append(f"{name} cannot be read: {error}; run the playbook that writes it again")
            return None
        if not isinstance(content, dict):
            self.problems.append(f"{name} is not a JSON object; run the playbook that writes it again")
            return None
        return content

    def written(self, name: str) -> str:
        """Return when a file was written (UTC, ISO 8601), for results without a time of their own."""
        seconds = (self.directory / name).stat().st_mtime
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")

    def links(self, *names: str) -> list[str]:
        """Return those of the files that are there."""
        return [name for name in names if (self.directory / name).is_file()]

    def pages(self) -> list[str]:
        """Return the names of the other pages."""
        return sorted(path.name for path in self.directory.glob("*.html") if path.name != PAGE)
