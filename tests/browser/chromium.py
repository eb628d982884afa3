# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium without a window, driven by Selenium."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

PACKAGES = {"chromium": "chromium", "chromedriver": "chromium-driver"}
# Seconds; a busy machine takes long, and a page that hangs has to be reported as such.
_PATIENCE = 300


def missing_packages() -> str:
    """Return what to install where a program is missing, else nothing."""
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    names = " ".join(missing)
    return f"{' and '.join(missing)} not installed: apt-get install --no-install-recommends {names}" if missing else ""


@contextlib.contextmanager
def started(profile: Path) -> Iterator[webdriver.Chrome]:
    """Start a browser with a profile directory of its own, which keeps what the pages' scripts report."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ("--headless=new", "--window-size=1440,1000", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={profile}")
    if os.geteuid() == 0:
        # Chromium's own sandbox refuses to run as root.
        options.add_argument("--no-sandbox")
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.set_page_load_timeout(_PATIENCE)
        driver.set_script_timeout(_PATIENCE)
        yield driver
    finally:
        driver.quit()
