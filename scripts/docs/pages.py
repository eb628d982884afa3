# SPDX-License-Identifier: Apache-2.0
"""The generated pages of docs/; `python -m scripts.docs.pages` writes them, a unit test compares them."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "collections"))

from scripts.docs.kinds import kinds_page, mistakes_page  # noqa: E402 - the collection is not on the path before
from scripts.docs.playbooks import playbooks_page  # noqa: E402
from scripts.docs.support import support_page  # noqa: E402
from scripts.docs.variables import variables_page  # noqa: E402

PAGES = {
    "playbooks.md": playbooks_page,
    "variables.md": variables_page,
    "kinds.md": kinds_page,
    "mistakes.md": mistakes_page,
    "support.md": support_page,
}


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page(), encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
