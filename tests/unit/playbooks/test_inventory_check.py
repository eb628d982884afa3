# SPDX-License-Identifier: Apache-2.0
"""Every playbook begins with the check of the inventory, which contacts nothing; its variables are those in use."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.heddle.ovn.plugins.module_utils.store.settings import DEFAULTS
from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory import formats
from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.control_node import PYTHON, control_mistakes
from ansible_collections.heddle.ovn.plugins.plugin_utils.inventory.variables import read_variables

ROOT = Path(__file__).resolve().parents[3]
COLLECTION = ROOT / "collections" / "ansible_collections" / "heddle" / "ovn"
PLAYBOOKS = sorted((COLLECTION / "playbooks").glob("*.yml"))
GOOD = ROOT / "tests" / "golden" / "inventory" / "good" / "hosts.yml"
VARIABLES = read_variables()
GROUPS = {"heddle_nodes", "heddle_state", "heddle_external"}
# Without these, a name of a variable is a word: `heddle_nodes` the group, `heddle_x:` what a play sets for itself.
NAME = re.compile(r"(?<![\w.])heddle_[a-z0-9_]+\b(?!\.(?:json|db|sock|conf|wanted))")
SETTERS = {"register", "vars", "ansible.builtin.set_fact"}


def used_by_files() -> str:
    """Return playbooks, roles and plugins, without comments."""
    files = [path for folder in ("playbooks", "roles", "plugins") for path in (COLLECTION / folder).rglob("*")]
    files += (ROOT / "inventories" / "example").rglob("*.yml")
    texts = [path.read_text() for path in files if path.suffix in (".yml", ".j2", ".py")]
    return "\n".join(line for text in texts for line in text.splitlines() if not line.lstrip().startswith("#"))


def set_by(node) -> set[str]:
    """Return the variables that plays and tasks set for themselves: registered, facts, variables of plays and tasks."""
    found: set[str] = set()
    if isinstance(node, list):
        return set().union(*map(set_by, node)) if node else found
    if isinstance(node, dict):
        for key, value in node.items():
            if key in SETTERS:
                found |= {value} if isinstance(value, str) else set(value)
            if not isinstance(value, str):
                found |= set_by(value)
    return found


def first_play(path: Path) -> str:
    """Return the playbook in which the first play of a playbook is."""
    entry = yaml.safe_load(path.read_text())[0]
    imported = entry.get("ansible.builtin.import_playbook")
    return first_play(path.parent / imported) if imported else path.name


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_a_playbook_begins_with_the_check(path: Path):
    assert first_play(path) == "inventory.yml"


def test_playbooks_and_roles_use_only_listed_variables():
    parts = [path for folder in ("vars", "tasks") for path in (COLLECTION / "playbooks" / folder).glob("*.yml")]
    files = [*PLAYBOOKS, *parts, *(COLLECTION / "roles").rglob("*.yml")]
    documents = [yaml.safe_load(path.read_text()) for path in files]
    texts = ["\n".join(line for line in path.read_text().splitlines() if line.lstrip()[:1] != "#") for path in files]
    used = {name for text in texts for name in NAME.findall(text)}
    in_files = set().union(
        *(yaml.safe_load(path.read_text()) for path in (COLLECTION / "playbooks/vars").glob("*.yml"))
    )
    unlisted = used - set(VARIABLES) - GROUPS - set_by(documents) - in_files
    assert not unlisted, "not in meta/variables/ of the collection"


def test_every_listed_variable_is_used():
    text = used_by_files()
    unused = [name for name in VARIABLES if not re.search(rf"\b{name}\b", text)]
    assert not unused, "in meta/variables/ of the collection, and nothing reads it"


def test_defaults_are_those_of_the_playbooks():
    """`NAME | default(LITERAL)` in a playbook has the listed default."""
    wrong = []
    for path in [*PLAYBOOKS, *(COLLECTION / "playbooks" / "vars").glob("*.yml")]:
        for name, text in re.findall(r"(?<![\w.])(\w+) \| default\(([^()]*)\)", path.read_text()):
            if name in VARIABLES and text not in ("omit", "none", "''"):
                found = yaml.safe_load(text)
                if "default" in VARIABLES[name] and found != VARIABLES[name]["default"]:
                    wrong.append(f"{path.name}: {name}: {found!r}, listed {VARIABLES[name]['default']!r}")
    assert not wrong


def test_defaults_of_the_settings():
    listed = VARIABLES["heddle_settings"]["options"]
    # A variable of its own, as installing a host depends on it.
    own = {"encapsulation_type": VARIABLES["heddle_encapsulation_type"]["default"]}
    assert {name: option["default"] for name, option in listed.items()} | own == DEFAULTS


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_is_described(name: str):
    option = VARIABLES[name]
    assert option["description"] and option["type"]
    assert not option.keys() - {
        "choices", "commas", "default", "description", "elements", "empty", "entries", "format", "groups", "options",
        "playbooks", "range", "required", "scope", "type",
    }  # fmt: skip
    assert "format" not in option or callable(getattr(formats, option["format"]))
    assert (option["scope"] == "run") == ("playbooks" in option)
    stems = {path.stem for path in PLAYBOOKS}
    assert set(option.get("playbooks", [])) <= stems
    assert set(option.get("groups", [])) <= GROUPS


@pytest.mark.parametrize(
    ("ansible", "python", "expected"),
    [
        ("2.19.0", (3, 11, 0), []),
        ("2.18.9", (3, 12, 1), ["ansible-core is 2.18.9"]),
        ("2.19.4rc1", (3, 10, 4), ["Ansible runs with Python 3.10.4"]),
        ("2.9.27", (3, 9, 2), ["ansible-core is 2.9.27", "Ansible runs with Python 3.9.2"]),
    ],
)
def test_versions_of_the_control_node(ansible: str, python: tuple, expected: list):
    assert [mistake.rule for mistake in control_mistakes(ansible, python, [])] == expected


def test_a_missing_package_of_the_control_node():
    packages = [{"name": "json", "requirements": "a.txt"}, {"name": "no_such_package", "requirements": "extra.txt"}]
    found = list(control_mistakes("2.19.4", (3, 12, 0), packages))
    assert [(mistake.rule, mistake.remedy) for mistake in found] == [
        ("the Python package no_such_package is missing", "pip install -r extra.txt")
    ]


def test_the_python_version_is_that_of_the_project():
    assert f'target-version = "py{PYTHON[0]}{PYTHON[1]}"' in (ROOT / "pyproject.toml").read_text()


def run(tmp_path: Path, *arguments: str) -> tuple[int, str, bool]:
    """Run a playbook; return exit status, output, and whether a host was contacted."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\ntouch {tmp_path}/contacted\nexit 255\n")
    ssh.chmod(0o755)
    environment = {
        **os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_STDOUT_CALLBACK": "default", "COLUMNS": "200",
        "ANSIBLE_SSH_EXECUTABLE": str(ssh), "ANSIBLE_SSH_RETRIES": "0",
    }  # fmt: skip
    command = [str(Path(sys.executable).parent / "ansible-playbook"), *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr, (tmp_path / "contacted").exists()


@pytest.mark.parametrize("limit", [(), ("--limit", "node2")], ids=["all", "limit"])
def test_no_host_is_contacted_when_the_inventory_is_wrong(tmp_path: Path, limit: tuple):
    case = tmp_path / "case.yml"
    case.write_text("heddle_nodes:\n  vars:\n    heddle_uplnk: eth0\n    heddle_provider_vlan: 5000\n")
    status, output, contacted = run(tmp_path, "playbooks/site.yml", "-i", str(GOOD), "-i", str(case), *limit)
    assert status == 2
    assert not contacted
    assert output.count("heddle_uplnk: is no variable of Heddle; did you mean heddle_uplink?") >= 1
    assert "heddle_provider_vlan: 5000 is out of range; write a number from 1 to 4094" in output
    assert "heddle.ovn.chassis" not in output


@pytest.mark.parametrize("name", ["example", "lab"])
def test_our_inventories_have_no_mistake(tmp_path: Path, name: str):
    status, output, contacted = run(tmp_path, "playbooks/inventory.yml", "-i", f"inventories/{name}")
    assert (status, contacted) == (0, False), output
