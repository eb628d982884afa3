# SPDX-License-Identifier: Apache-2.0
"""What few runs of networks.yml need costs a run without changes no process for each host."""

from pathlib import Path

import pytest
import yaml

PLAYBOOKS = Path(__file__).parents[3] / "playbooks"
# Skipped in site.yml only, where networks.yml follows the installation.
_EVERY_RUN = {"Read the chassis facts if the host was not installed in this run"}


def tasks_of_plays(name: str) -> list[tuple[str, dict, bool]]:
    """Return play, task, and whether a task before it may have ended the play for the host."""
    found = []
    for play in yaml.safe_load((PLAYBOOKS / name).read_text()):
        ends = False
        for task in play.get("tasks", []):
            found.append((play["name"], task, ends))
            ends = ends or task.get("ansible.builtin.meta") in ("end_play", "end_host")
    return found


@pytest.mark.parametrize("name", ["networks.yml", "inventory.yml", "validate.yml"])
def test_conditions_of_tasks_come_after_the_end_of_a_play_without_need(name):
    """Ansible decides a condition in a process for each host, except that of ansible.builtin.meta."""
    skipped = [
        f"{play}: {task['name']}"
        for play, task, ends in tasks_of_plays(name)
        if "when" in task and "ansible.builtin.meta" not in task and not ends and task["name"] not in _EVERY_RUN
    ]
    assert not skipped


def test_networks_has_no_assertions_and_no_validation_of_arguments_of_roles():
    """Both are processes for each host in each run; a failure is a play that ends at once where there is none."""
    plays = yaml.safe_load((PLAYBOOKS / "networks.yml").read_text())
    assert not [play["name"] for play in plays if play.keys() & {"roles", "pre_tasks", "post_tasks"}]
    assert not [
        task["name"] for _play, task, _ends in tasks_of_plays("networks.yml") if "ansible.builtin.assert" in task
    ]
