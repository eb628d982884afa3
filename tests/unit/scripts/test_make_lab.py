# SPDX-License-Identifier: Apache-2.0
"""What stays after `make lab` was interrupted or failed."""

from __future__ import annotations

import sys

import pytest

from lab.errors import DamagedError
from scripts import make_lab

HOSTS = [{"name": "node1", "running": True}, {"name": "node2", "running": False}]
STATUS = {"hosts": HOSTS, "driver": "vm", "reason": "KVM works", "directory": "/some/lab"}


@pytest.mark.parametrize("words", [[], ["--hosts"]])
def test_hosts_that_stay_are_named_with_their_removal(monkeypatch, capsys, words):
    monkeypatch.setattr(make_lab, "run_all", lambda *_, **_named: 1)
    monkeypatch.setattr(make_lab.commands, "status", lambda _lab: STATUS)
    monkeypatch.setattr(sys, "argv", ["make_lab", *words])
    assert make_lab.main() == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "stays:   /some/lab, hosts that run: node1",
        "next:    make lab continues, make lab-down removes it",
    ]


@pytest.mark.parametrize("driver", ["auto", "nspawn"])
def test_packages_are_those_of_the_driver_that_the_hosts_get(driver):
    packages, hosts, *_ = make_lab.stages(driver)
    assert packages.command[-3:] == ["packages", "--driver", driver]
    assert hosts.command[-2:] == packages.command[-2:]


def test_nothing_stays(monkeypatch, capsys):
    monkeypatch.setattr(make_lab, "run_all", lambda *_, **_named: 1)
    monkeypatch.setattr(make_lab.commands, "status", lambda _lab: {"up": False, "hosts": []})
    monkeypatch.setattr(sys, "argv", ["make_lab"])
    assert make_lab.main() == 1
    assert capsys.readouterr().out.splitlines()[-1] == "hosts:   none"


def test_damaged_state_is_one_line(monkeypatch, capsys):
    def refuse(_lab):
        raise DamagedError("lab.json is damaged", "run: python -m lab down")

    monkeypatch.setattr(make_lab, "run_all", lambda *_, **_named: 1)
    monkeypatch.setattr(make_lab.commands, "status", refuse)
    monkeypatch.setattr(sys, "argv", ["make_lab"])
    assert make_lab.main() == 1
    assert capsys.readouterr().out == "\nerror: lab.json is damaged; run: python -m lab down\n"
