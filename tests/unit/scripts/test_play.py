# SPDX-License-Identifier: Apache-2.0
"""scripts/play: which runs use Mitogen's strategy, and the inventory that they need."""

import os
import shutil
import subprocess

import pytest

from scripts.stages import PROJECT


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the script for arguments, with a program that prints the strategy as Ansible."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    shutil.copy(PROJECT / "scripts" / "play", tmp_path / "scripts")
    (programs / "ansible-playbook").write_text('#!/bin/sh\necho "${ANSIBLE_STRATEGY:-linear}"\n')
    (programs / "python").write_text("#!/bin/sh\necho /mitogen\n")
    for program in programs.iterdir():
        program.chmod(0o755)

    def run(*arguments, **environment):
        left_out = ("MITOGEN", "ANSIBLE_STRATEGY", "ANSIBLE_INVENTORY", "LAB_DIR")
        cleaned = {name: value for name, value in os.environ.items() if name not in left_out}
        command = [tmp_path / "scripts" / "play", *arguments]
        return subprocess.run(command, env={**cleaned, **environment}, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def strategy(run, tmp_path):
    """Return a function that runs the script beside a lab and returns the strategy."""
    (tmp_path / ".lab").mkdir()
    (tmp_path / ".lab" / "ssh_config").touch()

    def strategy(*arguments, **environment):
        done = run(*arguments, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return strategy


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["playbooks/site.yml"], "mitogen_linear"),
        (["heddle.ovn.site"], "mitogen_linear"),
        (["playbooks/networks.yml"], "linear"),
        (["/elsewhere/playbooks/audit.yml", "-e", "@more.yml", "--check"], "linear"),
        (["playbooks/networks.yml", "playbooks/audit.yml"], "linear"),
        # The playbooks of `make lab`: one that needs it is enough. Their last one alone decided once, and a run without
        # changes took twice as long.
        (["playbooks/site.yml", "playbooks/verify.yml", "playbooks/audit.yml"], "mitogen_linear"),
    ],
)
def test_mitogen_where_a_playbook_has_many_tasks(strategy, arguments, expected):
    assert strategy(*arguments) == expected


def test_the_environment_decides(strategy):
    assert strategy("playbooks/site.yml", MITOGEN="0") == "linear"
    assert strategy("playbooks/networks.yml", MITOGEN="1") == "mitogen_linear"


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["-i", "own.yml", "playbooks/site.yml"], {}),
        (["-iown.yml", "playbooks/site.yml"], {}),
        (["--inventory=own.yml", "playbooks/site.yml"], {}),
        (["playbooks/site.yml"], {"ANSIBLE_INVENTORY": "own.yml"}),
        (["playbooks/site.yml", "--syntax-check"], {}),
        # On the control node only.
        (["playbooks/validate.yml"], {}),
    ],
)
def test_no_lab_is_needed_with_an_inventory_or_without_hosts(run, arguments, environment):
    assert run(*arguments, **environment).returncode == 0


@pytest.mark.parametrize("environment", [{}, {"LAB_DIR": "other"}])
def test_without_a_lab_and_an_inventory_there_is_one_line_with_the_remedy(run, environment):
    done = run("playbooks/verify.yml", "-e", "x=1", **environment)
    assert done.returncode == 1
    assert done.stderr == "There is no lab: start one by 'make lab', or name an inventory of your own: -i FILE\n"
