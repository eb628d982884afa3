# SPDX-License-Identifier: Apache-2.0
"""Make the pictures of the README, docs/pictures/*.png, of a report: the page of the fleet, and two walkthroughs.

First `make lab` and `python -m scripts.walkthroughs 03_gateways 92_chaos`; LAB_REPORT names another
report. Needs Debian's chromium and chromium-driver.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import nbformat  # noqa: E402 - the project is not on the path before
from nbconvert import HTMLExporter  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402

from tests.browser.chromium import missing_packages, started  # noqa: E402

REPORT = Path(os.environ.get("LAB_REPORT") or PROJECT / "report").resolve()
PICTURES = PROJECT / "docs" / "pictures"
SIZE = (1280, 960)
# Walkthrough, and the number of the drawing that is at the top.
NOTEBOOKS = {"gateways": ("03_gateways", 0), "chaos": ("92_chaos", 0)}


def main() -> int:
    """Write the pictures."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    if missing := missing_packages():
        print(f"error: {missing}", file=sys.stderr)
        return 1
    pages = {"fleet": (REPORT / "index.html", None)}
    with tempfile.TemporaryDirectory() as work:
        for name, (notebook, drawing) in NOTEBOOKS.items():
            executed = REPORT / "walkthroughs" / f"{notebook}.ipynb"
            if not executed.exists():
                print(f"error: {executed} is missing; run python -m scripts.walkthroughs {notebook}", file=sys.stderr)
                return 1
            page = Path(work) / f"{name}.html"
            page.write_text(HTMLExporter().from_notebook_node(nbformat.read(executed, as_version=4))[0], "utf-8")
            pages[name] = (page, drawing)
        PICTURES.mkdir(exist_ok=True)
        with started(Path(work) / "profile") as browser:
            browser.set_window_size(*SIZE)
            for name, (page, drawing) in pages.items():
                browser.get(page.as_uri())
                if drawing is not None:
                    # The end of the cell that drew it is above.
                    browser.execute_script(
                        "arguments[0].scrollIntoView(); window.scrollBy(0, -360)",
                        browser.find_elements(By.CSS_SELECTOR, ".jp-OutputArea-output svg")[drawing],
                    )
                picture = PICTURES / f"{name}.png"
                browser.save_screenshot(str(picture))
                print(f"wrote {picture.relative_to(PROJECT)}, {picture.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
