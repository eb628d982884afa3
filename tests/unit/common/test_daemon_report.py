# SPDX-License-Identifier: Apache-2.0
"""Reports of daemons in a directory that takes no files, as a full /run."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.common.files.daemon_report import Report, read_report
from ansible_collections.heddle.ovn.plugins.module_utils.underlay_daemon import watch as underlay_watch


def test_a_report_that_cannot_be_written_is_logged_once(tmp_path: Path) -> None:
    said: list[str] = []
    report = Report(str(tmp_path / "run" / "report.json"), said.append)
    assert not report.write({"one": {}})
    assert not report.write({"two": {}})
    assert said == [f"{report.path}: [Errno 2] No such file or directory: '{report.path}.new'; trying again"]
    (tmp_path / "run").mkdir()
    assert report.write({"two": {}})
    assert read_report(report.path) == {"two": {}}
    (tmp_path / "run" / "report.json").unlink()
    (tmp_path / "run").rmdir()
    assert not report.write({})
    assert len(said) == 2


def test_the_underlay_is_checked_without_a_report(tmp_path: Path, monkeypatch) -> None:
    class Prober:
        def __init__(self, _task) -> None:
            pass

        def search(self) -> None:
            pass

        def sent(self) -> dict:
            return {"node2": {"geneve": 1400}}

        def close(self) -> None:
            pass

    monkeypatch.setattr(underlay_watch, "Prober", Prober)
    said: list[str] = []
    turns = [type("Task", (), {"ceiling": 1500})] * 3
    path = tmp_path / "run" / "underlay.json"
    underlay_watch.watch(lambda: turns.pop() if turns else None, str(path), said.append, 0.0)
    assert turns == []
    assert len(said) == 1
    assert "trying again" in said[0]
