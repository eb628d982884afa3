# SPDX-License-Identifier: Apache-2.0
"""A browser for all tests; where it is missing they are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from tests.browser.chromium import missing_packages, started


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Return a browser."""
    if missing := missing_packages():
        pytest.skip(missing)
    with started(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture
def opened(browser: webdriver.Chrome) -> Iterator[Callable[..., webdriver.Chrome]]:
    """Return a function that opens a page; at the end none of its scripts may have failed."""
    browser.get_log("browser")

    def open_page(page: Path, fragment: str = "") -> webdriver.Chrome:
        browser.get("about:blank")
        browser.get(page.as_uri() + fragment)
        return browser

    yield open_page
    assert [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
