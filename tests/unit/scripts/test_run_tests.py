# SPDX-License-Identifier: Apache-2.0
"""The order of the test groups."""

from __future__ import annotations

import re
import sys

import pytest

from scripts import run_tests, stages
from scripts.run_tests import stages_of
from scripts.stages import Stage
from scripts.suite import GROUPS

NAMES = [name for name, group in GROUPS.items() if not group.with_group]


@pytest.mark.parametrize("names", [NAMES, *([name] for name in NAMES)], ids=" ".join)
def test_every_stage_can_begin_and_labs_are_removed_after_their_last_stage(names):
    stages = stages_of(names)
    order = [stage.name for stage in stages]
    assert len({*order}) == len(order)
    for number, stage in enumerate(stages):
        assert {*stage.after, *stage.needs} <= {*order[:number]}, stage.name
    used = {stage.environment["LAB_DIR"] for stage in stages if "LAB_DIR" in stage.environment}
    assert {stage.environment["LAB_DIR"] for stage in stages if stage.always} == used
    for removal in (stage for stage in stages if stage.always):
        directory = removal.environment["LAB_DIR"]
        users = {stage.name for stage in stages if stage.environment.get("LAB_DIR") == directory} - {removal.name}
        assert users <= {*removal.after}


@pytest.mark.parametrize("variable", ["LAB_REPORT", "DRIVER LAB_NETWORK_PREFIX LAB_NETWORK_PREFIX6"])
def test_labs_share_nothing(variable):
    """Their stages run side by side; hosts of other drivers have no addresses on this machine."""
    used: dict[str, set] = {}
    for stage in stages_of(NAMES):
        if "LAB_DIR" in stage.environment:
            value = tuple(stage.environment.get(word) for word in variable.split())
            used.setdefault(stage.environment["LAB_DIR"], set()).add(value)
    assert all(len(values) == 1 for values in used.values())
    assert len({value for (value,) in used.values()}) == len(used) > 2


def test_a_lab_is_removed_before_stages_that_do_not_use_it():
    order = [stage.name for stage in stages_of([name for name in NAMES if not GROUPS[name].long])]
    assert order.index("remove the uml lab") == order.index("User Mode Linux: engines") + 1
    assert order.index("remove the nspawn lab") < order.index("second lab: hosts")
    assert order.index("remove the second lab") == order.index("upgrade: tests") + 1


def test_short_groups_begin_when_the_long_ones_leave_room():
    names = [name for name in NAMES if not GROUPS[name].long]
    assert names[-2:] == ["sanity", "browser"]
    assert {"live", "lab", "upgrade", "uml"} < {*names[:-2]}


def test_added_group_follows_its_dependencies():
    stages = {stage.name: stage for stage in stages_of(["live", "unit"])}
    assert "host image" in stages["live"].after
    assert "packages of the lab" in stages["host image"].after
    assert "packages of the lab" in stages["unit, golden, notebook"].after
    assert "containers: hosts" not in stages


def test_byte_code_is_kept_for_all_stages(tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "REPORT", tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    kept = Stage("keeps", [sys.executable, "-c", "import sys; sys.exit(sys.dont_write_bytecode)"])
    monkeypatch.setattr(run_tests, "stages_of", lambda _names: [kept])
    monkeypatch.setattr(sys, "argv", ["run_tests", "lint"])
    assert run_tests.main() == 0


def test_groups_that_need_root_are_those_with_containers():
    containers = {
        name for name in NAMES if any(stage.environment.get("DRIVER") == "nspawn" for stage in stages_of([name]))
    }
    assert {name for name in NAMES if GROUPS[name].root} == containers | {"fresh", "fresh-quick"}


@pytest.mark.parametrize(
    ("words", "needing", "remedy"),
    [([], "lab, upgrade, fresh-quick", "; run this as root, or run what needs none: .* scripts.run_tests lint .*unit "),
     (["lab", "uml"], "lab", "scripts.run_tests uml$"), (["lab"], "lab", "; run this as root$")],
)  # fmt: skip
def test_an_ordinary_user_learns_what_needs_root_before_anything_runs(monkeypatch, capsys, words, needing, remedy):
    monkeypatch.setattr(run_tests.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(run_tests, "run_all", lambda *_words, **_named: pytest.fail("a stage was started"))
    monkeypatch.setattr(sys, "argv", ["run_tests", *words])
    assert run_tests.main() == 1
    message = capsys.readouterr().err.strip()
    assert message.startswith(f"error: containers need root, which the groups {needing} start; ")
    assert re.search(remedy, message)


def test_groups_without_containers_need_no_root(monkeypatch):
    monkeypatch.setattr(run_tests.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(run_tests, "run_all", lambda *_words, **_named: 0)
    monkeypatch.setattr(sys, "argv", ["run_tests", "lint", "unit", "live", "uml"])
    assert run_tests.main() == 0
