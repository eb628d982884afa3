# SPDX-License-Identifier: Apache-2.0
"""Services that run with former files."""

from __future__ import annotations

import os
import time

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import NotInstalled, ProgramError
from ansible_collections.heddle.ovn.plugins.module_utils.common.files.service_files import outdated_services


class Systemd:
    """Prints what systemctl show prints, for units by name."""

    def __init__(self, **units):
        self.units = units

    def __call__(self, argv, _text):
        assert argv[:2] == ["systemctl", "show"]
        names = argv[argv.index("--") + 1 :]
        return "\n".join(
            "".join(f"{key}={value()}\n" for key, value in self.units[name.rpartition(".")[0]].items())
            for name in names
        )


def unit(started=None, state="active", load="loaded", reload="no", kind="ExecMainStart"):
    """Return functions that return a unit's properties; `started` is in seconds before they are called."""

    def monotonic() -> int:
        return round((time.monotonic() - started) * 1e6)

    properties = {"LoadState": load, "ActiveState": state, "NeedDaemonReload": reload}
    times = {"ExecMainStart": 0, "ActiveEnter": 0} | ({} if started is None else {kind: monotonic})
    properties |= {f"{name}TimestampMonotonic": value for name, value in times.items()}
    return {name: value if callable(value) else lambda value=value: value for name, value in properties.items()}


@pytest.fixture
def path(tmp_path):
    """Return a file that was changed just now."""
    found = tmp_path / "unit"
    found.write_text("text")
    # The kernel's coarse clock is up to one tick behind.
    while time.time() <= found.stat().st_ctime:
        pass
    return str(found)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (unit(started=60), ["one"]),
        (unit(started=60, state="activating"), ["one"]),
        (unit(started=60, kind="ActiveEnter"), ["one"]),
        (unit(started=-60), []),
        # What starts now reads the files as they are.
        (unit(started=60, state="failed"), []),
        (unit(state="inactive"), []),
        # But not by a unit that systemd has read before.
        (unit(state="inactive", reload="yes"), ["one"]),
        (unit(started=-60, reload="yes"), ["one"]),
        (unit(state="inactive", load="not-found"), []),
    ],
)
def test_running_services_older_than_their_files_are_found(path, properties, expected):
    assert outdated_services({"one": [path, "/nonexistent"]}, run=Systemd(one=properties)) == expected


def test_a_written_file_counts_before_it_is_there():
    services = {"one": ["/nonexistent"], "two.timer": ["/nonexistent", "/other"], "three": []}
    systemd = Systemd(one=unit(started=60), two=unit(started=60, kind="ActiveEnter"), three=unit(started=60))
    assert outdated_services(services, ["/other"], systemd) == ["two.timer"]
    assert outdated_services(services, run=systemd) == []


def test_a_file_with_the_time_of_its_source_counts(path):
    os.utime(path, (0, 0))
    assert outdated_services({"one": [path]}, run=Systemd(one=unit(started=60))) == ["one"]


def test_a_file_of_the_future_does_not_count(path, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: os.stat(path).st_ctime - 1)
    assert outdated_services({"one": [path]}, run=Systemd(one=unit(started=60))) == []


@pytest.mark.parametrize("error", [NotInstalled("systemctl", "is not installed"), ProgramError("systemctl", "no bus")])
def test_there_are_none_without_systemd(path, error):
    def fail(_argv, _text):
        raise error

    assert outdated_services({"one": [path]}, run=fail) == []
