# SPDX-License-Identifier: Apache-2.0
"""The page of the fleet in a browser, as a person uses it: mouse, keyboard, print, light and dark."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import yaml
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.fleet.page import fleet_page
from tests.fleet import HOSTILE, report_files, write_report

FAILED = {
    "passed": False, "time": "2026-01-01T00:00:00+00:00", "plan": "p", "problems": [],
    "counts": {"reached": 1, "isolated": 2}, "failures": ["red/w1 -> red/w2: <b>no answer</b>"], "not_tested": [],
}  # fmt: skip


def page_of(directory: Path) -> Path:
    page = directory / "index.html"
    page.write_text(fleet_page(directory), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    return page_of(write_report(tmp_path_factory.mktemp("small"), verify=FAILED))


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    return page_of(write_report(tmp_path_factory.mktemp("large"), networks=1000, workloads=5000))


def one(driver, selector: str):
    return driver.find_element(By.CSS_SELECTOR, selector)


def texts(driver, selector: str) -> list[str]:
    return [element.text for element in driver.find_elements(By.CSS_SELECTOR, selector)]


def counts(driver) -> list[str]:
    """Return what the tabs count: networks, workloads, hosts."""
    return texts(driver, ".tabs .count")


def test_overview(opened, small) -> None:
    driver = opened(small)
    assert one(driver, "h1").text == "Fleet test"
    assert texts(driver, ".figure") == ["3", "3", "4"]
    assert texts(driver, ".run .badge") == ["failed", "no result", "no result", "no result"]
    assert texts(driver, "#attention li") == ["verify failed: 1 reached, 2 isolated, 0 north-south, 1 wrong"]
    one(driver, "[data-run=verify] summary").click()
    assert texts(driver, "[data-run=verify] li") == FAILED["failures"]


def test_a_hostile_manifest_stays_text(opened, small) -> None:
    driver = opened(small, "#network/red_net")
    assert driver.title == "Fleet test"
    manifest = yaml.safe_load(one(driver, "#detail pre").get_attribute("textContent"))
    status = json.loads(report_files()["status.json"])
    assert manifest == status["objects"]["UserDefinedNetwork/red/net"]
    assert manifest["metadata"]["annotations"]["note"] == HOSTILE


def test_a_network_is_opened_by_a_click(opened, small) -> None:
    driver = opened(small)
    next(row for row in driver.find_elements(By.CSS_SELECTOR, "#list tbody tr") if "red_net" in row.text).click()
    panel = one(driver, "#detail")
    WebDriverWait(driver, 60).until(lambda _: panel.is_displayed())
    assert one(panel, "h2").text == "red_net"
    picture = one(panel, "svg.topology").get_attribute("textContent")
    for text in ("GR_red_net_node1", "red_net_transit_router", "red_net_ovn_layer2_switch", "red/w3", "100.65.0.2"):
        assert text in picture
    network = json.loads(report_files()["status.json"])["networks"]["red_net"]
    assert all(f"{key} (0x{key:x})" in panel.text for key in network["tunnel_keys"])
    assert {"Topology", "Conditions", "Members (3)", "YAML"} <= set(texts(panel, "h3"))
    assert "NetworkCreated" in panel.text
    driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not panel.is_displayed()


def test_keyboard(opened, small) -> None:
    driver = opened(small)
    one(driver, "body").send_keys("/")
    search = driver.switch_to.active_element
    assert search.get_attribute("id") == "search"
    search.send_keys("net")
    assert counts(driver) == ["2", "4", "0"]
    search.send_keys(Keys.ARROW_DOWN)
    assert driver.switch_to.active_element.text == "blue_net"
    driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    driver.switch_to.active_element.send_keys(Keys.ENTER)
    WebDriverWait(driver, 60).until(lambda _: texts(driver, "#detail h2") == ["red_net"])
    driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert driver.switch_to.active_element.text == "red_net"


def test_light_and_dark(opened, small) -> None:
    driver = opened(small)
    colors = {}
    for _ in range(3):
        one(driver, "#theme").click()
        theme = driver.find_element(By.TAG_NAME, "html").get_attribute("data-theme")
        colors[theme] = one(driver, "body").value_of_css_property("background-color")
    assert set(colors) == {"light", "dark", "automatic"}
    assert colors["light"] != colors["dark"]


def test_a_fleet_of_1000_networks_and_5000_workloads(opened, large) -> None:
    driver = opened(large)
    assert counts(driver) == ["1,003", "5,004", "3"]
    search = one(driver, "#search")
    search.send_keys("tenant-0777 10.77.")
    assert counts(driver) == ["0", "5", "0"]
    one(driver, "#tab-workload").click()
    assert texts(driver, "#list tbody th") == [f"tenant-0777/w{777 + 1000 * number:04}" for number in range(5)]
    search.clear()
    search.send_keys("0a:58:0a:09:13:01")
    assert texts(driver, "#list tbody th") == ["tenant-0873/w4873"]
    one(driver, "#list tbody a").click()
    WebDriverWait(driver, 60).until(lambda _: "tenant-0873_net" in one(driver, "#detail").text)


def test_filters_and_order(opened, large) -> None:
    driver = opened(large)
    one(driver, "#filter-topology option[value=Layer3]").click()
    assert counts(driver)[0] == "502"
    one(driver, "#filter-state option[value=attention]").click()
    assert counts(driver) == ["0", "0", "0"]
    assert "Nothing matches" in one(driver, ".end").text
    one(driver, "#filter-state option[value='']").click()
    identifier = driver.find_elements(By.CSS_SELECTOR, "#list thead button")[1]
    identifier.click()
    driver.find_elements(By.CSS_SELECTOR, "#list thead button")[1].click()
    assert one(driver, "#list tbody th").text == "tenant-0999_net"


def test_the_table_grows_while_it_is_scrolled(opened, large) -> None:
    driver = opened(large)
    begun = len(texts(driver, "#list tbody th"))
    assert begun < 1003
    driver.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    WebDriverWait(driver, 60).until(lambda _: len(texts(driver, "#list tbody th")) > begun)


def test_all_rows_are_printed(opened, small) -> None:
    driver = opened(small)
    printed = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF")
    driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert len(texts(driver, "#list tbody th")) == 3


def test_without_results(opened, tmp_path) -> None:
    driver = opened(page_of(tmp_path))
    assert "run heddle.ovn.status" in one(driver, "#attention").text
