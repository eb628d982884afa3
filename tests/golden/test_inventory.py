# SPDX-License-Identifier: Apache-2.0
"""tests/golden/inventory: each NAME.yml is an inventory with a mistake, NAME.txt has exactly the lines of the check.

A case is read after good/hosts.yml and replaces what it names; with the comment `# alone` it is the whole inventory.
The comment `# -e NAME=VALUE` gives an extra variable. HEDDLE_RECORD=1 writes the texts; read their diff before you
commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.check import inventory_mistakes
from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.fleet import lines
from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.reading import read_fleet
from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.variables import read_variables

CASES = Path(__file__).parent / "inventory"
GOOD = CASES / "good" / "hosts.yml"
NAMES = sorted(CASES.glob("*.yml"))
VARIABLES = read_variables()


def check(sources: list[Path], extra: dict | None = None) -> list[str]:
    """Return the lines of the check for inventories that are read by Ansible."""
    loader = DataLoader()
    loader.set_basedir(str(CASES))
    inventory = InventoryManager(loader=loader, sources=[str(source) for source in sources])
    manager = VariableManager(loader=loader, inventory=inventory)
    # Ansible keeps one dictionary for the process.
    manager.extra_vars.clear()
    manager.extra_vars.update(extra or {})
    hostvars = HostVars(inventory, manager, loader)
    task_vars = {**manager.get_vars(host=inventory.get_host("localhost")), "hostvars": hostvars}
    fleet = read_fleet(task_vars, loader, VARIABLES)
    return lines(inventory_mistakes(fleet, VARIABLES), fleet.groups)


@pytest.mark.parametrize("case", NAMES, ids=lambda path: path.stem)
def test_exact_lines(case: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(CASES)
    comments = [line.removeprefix("# ") for line in case.read_text().splitlines() if line.startswith("# ")]
    extra = [line.removeprefix("-e ") for line in comments if line.startswith("-e ")]
    sources = [case] if "alone" in comments else [GOOD, case]
    found = "".join(f"{line}\n" for line in check(sources, dict(text.split("=", 1) for text in extra)))
    expected = case.with_suffix(".txt")
    if os.environ.get("HEDDLE_RECORD") == "1":
        expected.write_text(found)
    assert found
    assert found == expected.read_text()


def test_every_text_has_its_inventory():
    assert {path.stem for path in CASES.glob("*.txt")} == {path.stem for path in NAMES}


def test_the_inventory_of_the_cases_has_no_mistake(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(CASES)
    assert check([GOOD]) == []
