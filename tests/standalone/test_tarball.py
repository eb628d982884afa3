# SPDX-License-Identifier: Apache-2.0
"""The tarball of the collection is complete: playbooks, roles and plugins work where this repository is not."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest
import yaml

from .conftest import COLLECTION, ROOT, User

PLAYBOOKS = sorted(path.stem for path in (COLLECTION / "playbooks").glob("*.yml"))
ROLES = sorted(path.name for path in (COLLECTION / "roles").iterdir() if path.is_dir())
# Actions have the documentation of the module of the same name.
PLUGINS = {"module": "modules", "filter": "filter", "lookup": "lookup", "callback": "callback"}
NOT_OURS = ("tests", "changelogs/fragments", "__pycache__", ".pyc", ".ansible", ".cache")


def names(folder: str) -> list[str]:
    return sorted(f"heddle.ovn.{path.stem}" for path in (COLLECTION / "plugins" / folder).glob("*.py"))


@pytest.fixture(scope="module")
def inventory(user: User) -> Path:
    """The example inventory, where a user would put it."""
    shutil.copytree(ROOT / "inventories" / "example", user.directory / "mine")
    return user.directory / "mine"


def test_only_ansible_core_is_there(user: User):
    code = "import ansible, importlib.util as util; print(any(map(util.find_spec, ('pyroute2', 'rich', 'ovs'))))"
    assert user.run(str(user.python), "-c", code).stdout == "False\n"


def test_the_tarball_has_what_runs_and_nothing_else(user: User):
    version = yaml.safe_load((COLLECTION / "galaxy.yml").read_text())["version"]
    with tarfile.open(user.directory / f"heddle-ovn-{version}.tar.gz") as tarball:
        found = tarball.getnames()
    wrong = [name for name in found if name.startswith(NOT_OURS[:2]) or any(part in name for part in NOT_OURS[2:])]
    assert not wrong
    needed = [
        "COPYING",
        "README.md",
        "requirements.txt",
        "bindep.txt",
        "meta/runtime.yml",
        "playbooks/vars/chassis.yml",
        "playbooks/tasks/state_backup.yml",
        *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
    ]
    assert set(needed) <= set(found)


def test_the_syntax_of_every_playbook(user: User, inventory: Path):
    playbooks = [f"heddle.ovn.{name}" for name in PLAYBOOKS]
    shown = user.ansible("playbook", "--syntax-check", "-i", str(inventory / "hosts.yml"), *playbooks)
    read = {line.removeprefix("playbook: ") for line in shown.splitlines() if line.startswith("playbook: ")}
    assert read == {str(user.installed / "playbooks" / f"{name}.yml") for name in PLAYBOOKS}


@pytest.mark.parametrize("kind", PLUGINS)
def test_every_plugin_is_documented(user: User, kind: str):
    wanted = names(PLUGINS[kind])
    shown = user.ansible("doc", "--type", kind, "--json", *wanted)
    # ansible-doc only warns about one that it does not find.
    documented = json.loads(shown)
    assert sorted(documented) == wanted
    for plugin in documented.values():
        assert Path(plugin["doc"]["filename"]).is_relative_to(user.installed)


def test_every_role_is_documented(user: User):
    wanted = [f"heddle.ovn.{name}" for name in ROLES]
    assert sorted(json.loads(user.ansible("doc", "--type", "role", "--json", *wanted))) == wanted


def test_every_module_is_of_the_action_group_all(user: User):
    """A default of the group reaches a module; without the group the required option is missing."""
    play = {
        "hosts": "localhost", "gather_facts": False,
        "module_defaults": {"group/heddle.ovn.all": {"directory": str(user.directory / "grouped")}},
        "tasks": [{"heddle.ovn.report": {"files": {"a.txt": "text"}}}],
    }  # fmt: skip
    (user.directory / "grouped.yml").write_text(yaml.safe_dump([play]))
    user.ansible("playbook", "grouped.yml")
    assert (user.directory / "grouped" / "a.txt").read_text() == "text"


def test_validation_runs_without_a_host(user: User, inventory: Path):
    hosts = ("-i", str(inventory / "hosts.yml"), "-i", str(inventory / "control.yml"))
    shown = user.ansible("playbook", "heddle.ovn.validate", *hosts)
    assert "failed=0" in shown

    (inventory / "wrong").mkdir()
    (inventory / "wrong" / "red.yml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: Red}\n")
    wrong = f"heddle_manifests={inventory / 'wrong'}"
    shown = user.ansible("playbook", "heddle.ovn.site", *hosts, "-e", wrong, success=False)
    assert "red.yml" in shown
    assert "rack1" not in shown, "a host was asked although the manifests are invalid"


def test_the_program_of_the_hosts_is_made_of_the_installed_files(user: User):
    play = {
        "hosts": "localhost", "gather_facts": False,
        "tasks": [{"ansible.builtin.copy": {
            "src": f"{{{{ lookup('heddle.ovn.host_program', '{user.directory}/cache') }}}}",
            "dest": f"{user.directory}/heddle-host", "mode": "0755",
        }}],
    }  # fmt: skip
    (user.directory / "program.yml").write_text(yaml.safe_dump([play]))
    user.ansible("playbook", "program.yml")
    assert "usage" in user.run(str(user.python), "-I", "heddle-host", "--help").stdout
