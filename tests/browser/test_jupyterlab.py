# SPDX-License-Identifier: Apache-2.0
"""Notebooks in JupyterLab as a person uses them: open, run all cells, see progress and picture, interrupt."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "first_light"
# Seconds; only a page that hangs needs them.
PATIENCE = 300
HERE = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
CELLS = (
    f"""
import sys
sys.path.insert(0, {str(ROOT / "notebooks")!r})
from pathlib import Path
from heddle_notebook import Report, play
here = Path.cwd()
def run(name):
    return play.run(name, here / "runs", playbook=str(here / (name + ".yml")), inventory=str(here / "hosts.yml"))
""",
    'play.required(run("short")).tasks',
    f"Report({str(SAMPLE)!r}, 'pictures').physical()",
    'run("long")',
    'print("after the interrupt")',
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """JupyterLab on a directory with one notebook; its address with the token."""
    directory = tmp_path_factory.mktemp("jupyter")
    (directory / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"here": HERE}}}))
    for name, argv in {"short": ["true"], "long": ["sleep", "3600"]}.items():
        task = {"name": f"Run {argv[0]}", "ansible.builtin.command": {"argv": argv}}
        content = [{"name": "A play", "hosts": "all", "gather_facts": False, "tasks": [task]}]
        (directory / f"{name}.yml").write_text(json.dumps(content))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text.strip()) for text in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, directory / "page.ipynb")
    homes = {name: str(directory / "home" / name) for name in (
        "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "JUPYTERLAB_WORKSPACES_DIR",
        "JUPYTERLAB_SETTINGS_DIR",
    )}  # fmt: skip
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--port=0", "--allow-root",
               "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
               f"--notebook-dir={directory}"]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=directory, env={**os.environ, **homes}, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        said = ""
        for line in process.stdout:
            said += line
            if found := re.search(r"http://127\.0\.0\.1:(\d+)/lab\?token=(\w+)", line):
                yield f"http://127.0.0.1:{found[1]}/lab/tree/page.ipynb?token={found[2]}"
                break
        else:
            pytest.fail(f"JupyterLab did not start:\n{said[-3000:]}")
    finally:
        process.terminate()
        process.communicate()


def outputs(driver: webdriver.Chrome) -> list[str]:
    """Return the text of the output of each code cell."""
    return driver.execute_script(
        "return [...document.querySelectorAll('.jp-CodeCell')].map("
        "cell => [...cell.querySelectorAll('.jp-OutputArea-output')].map(one => one.innerText).join('\\n'))"
    )


def until(driver: webdriver.Chrome, condition: Callable[[webdriver.Chrome], object]) -> object:
    wait = WebDriverWait(driver, PATIENCE, ignored_exceptions=(StaleElementReferenceException, IndexError))
    return wait.until(condition, f"not on the page: {outputs(driver)}")


def menu(driver: webdriver.Chrome, name: str, command: str) -> None:
    """Choose an entry of a menu."""
    bar = f"//div[contains(@class, 'lm-MenuBar-itemLabel') and text()='{name}']"
    until(driver, lambda found: found.find_element(By.XPATH, bar)).click()
    entry = f"li.lm-Menu-item[data-command='{command}']"
    until(driver, lambda found: found.find_element(By.CSS_SELECTOR, entry)).click()


def test_run_all_shows_progress_and_pictures_and_an_interrupt_ends_a_run(browser: webdriver.Chrome, server: str):
    browser.get(server)
    until(browser, lambda found: len(found.find_elements(By.CSS_SELECTOR, ".jp-CodeCell")) == len(CELLS))
    # The kernel is there.
    until(browser, lambda found: found.find_elements(By.CSS_SELECTOR, "[data-status='idle']"))
    menu(browser, "Run", "runmenu:run-all")

    until(browser, lambda found: "Run true" in outputs(found)[1] and "successful" in outputs(found)[1])
    until(browser, lambda found: found.find_elements(By.CSS_SELECTOR, ".jp-OutputArea-output svg"))
    assert "node1" in outputs(browser)[2]

    # The live line of the run that would take an hour.
    until(browser, lambda found: "Run sleep" in outputs(found)[3])
    menu(browser, "Kernel", "kernelmenu:interrupt")
    until(browser, lambda found: "Interrupted: long was interrupted; run it again" in outputs(found)[3])
    assert "Traceback" not in outputs(browser)[3]
    # The kernel goes on.
    assert outputs(browser)[4] == ""
    browser.execute_script("document.querySelectorAll('.jp-CodeCell')[4].scrollIntoView()")
    browser.find_elements(By.CSS_SELECTOR, ".jp-CodeCell .jp-InputArea-editor")[4].click()
    menu(browser, "Run", "runmenu:run")
    until(browser, lambda found: "after the interrupt" in outputs(found)[4])
