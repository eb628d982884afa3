# SPDX-License-Identifier: Apache-2.0
"""scripts/play: which runs use Mitogen's strategy."""

import os
import shutil
import subprocess

import pytest

from scripts.stages import PROJECT


@pytest.fixture
def strategy(tmp_path):
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
        cleaned = {name: value for name, value in os.environ.items() if name not in ("MITOGEN", "ANSIBLE_STRATEGY")}
        command = [tmp_path / "scripts" / "play", *arguments]
        return subprocess.run(
            command, env={**cleaned, **environment}, capture_output=True, text=True, check=True
        ).stdout.strip()

    return run


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
