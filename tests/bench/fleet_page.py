# SPDX-License-Identifier: Apache-2.0
"""How long the page of the fleet takes: to be made, to be interactive in a browser, and to answer a search.

`interactive` is from the start of the navigation to the end of the page's script, in a Chromium that runs already.
`ratio` compares with a page of the same browser that has the same data and does nothing but parse it.

    python -m tests.bench.fleet_page --sizes 10/30 1000/5000
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from pathlib import Path
from statistics import median

from selenium import webdriver

from ansible_collections.heddle.ovn.plugins.module_utils.common.text.text_table import table
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.fleet.page import fleet_page
from tests.browser.chromium import missing_packages, started
from tests.fleet import write_report

_PARSE = "<script>JSON.parse(document.getElementById('data').textContent);"
_READY = "document.documentElement.dataset.ready = String(Math.round(performance.now()));</script>"
_SEARCH = """
const search = document.getElementById("search"), began = performance.now();
search.value = arguments[0];
search.dispatchEvent(new Event("input"));
document.body.getBoundingClientRect();
return performance.now() - began;
"""


def measured(driver: webdriver.Chrome, page: Path, rounds: int) -> float:
    """Return the median time until a page is interactive, in milliseconds."""
    times = []
    # The first one fills caches.
    for _ in range(rounds + 1):
        driver.get("about:blank")
        driver.get(page.as_uri())
        times.append(float(driver.execute_script("return document.documentElement.dataset.ready")))
    return median(times[1:])


def main() -> None:
    """Print one row for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["10/30", "1000/5000"], metavar="NETWORKS/WORKLOADS")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if missing := missing_packages():
        raise SystemExit(missing)
    rows = []
    with tempfile.TemporaryDirectory() as work, started(Path(work) / "profile") as driver:
        for size in options.sizes:
            networks, workloads = map(int, size.split("/"))
            directory = write_report(Path(work) / f"{networks}-{workloads}", networks, workloads)
            began = time.process_time()
            text = fleet_page(directory)
            made = time.process_time() - began
            page, control = directory / "index.html", directory / "control.html"
            page.write_text(text, encoding="utf-8")
            data = re.search(r'<script type="application/json".*?</script>', text, re.DOTALL).group()
            control.write_text(f"<!doctype html><html><body>{data}{_PARSE}{_READY}", encoding="utf-8")
            least = measured(driver, control, options.rounds)
            interactive = measured(driver, page, options.rounds)
            search = median(driver.execute_script(_SEARCH, words) for words in ("tenant-0", "10.7", "w1 node2", ""))
            rows.append([
                str(networks), str(workloads), f"{len(text) / 1e6:.2f}", f"{made:.2f}", f"{interactive:.0f}",
                f"{interactive / least:.1f}", f"{search:.0f}",
            ])  # fmt: skip
    head = ["networks", "workloads", "MB", "made, CPU s", "interactive, ms", "ratio", "search, ms"]
    print("\n".join(table("Page of the fleet", head, rows)))


if __name__ == "__main__":
    main()
