# SPDX-License-Identifier: Apache-2.0
"""Long jobs: display of failures, order of stages, and cleanup after an interruption."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from lab.processes import identity
from scripts import stages
from scripts.pytest_progress import Reporter
from scripts.stages import Stage, chain, run_all

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def report(tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "REPORT", tmp_path)
    monkeypatch.delenv("VERBOSE", raising=False)
    return tmp_path


def says(text: str, code: int = 0, **options) -> Stage:
    return Stage(text, [sys.executable, "-c", f"import sys; print({text + '!'!r}); sys.exit({code})"], **options)


@pytest.mark.parametrize("bad", ["first", "second", "beside"])
def test_failures_are_shown_with_output_and_log(capfd, report, bad):
    first, second, beside = (says(name, int(name == bad)) for name in ("first", "second", "beside"))
    assert run_all("try", [*chain([first, second]), beside], parallel=2) == 1
    printed = capfd.readouterr().out
    number = ["first", "second", "beside"].index(bad) + 1
    log = report / "logs" / "try" / f"{number:02d}-{bad}.log"
    assert f"    {bad}!\n    exit code 1\n    log: {log}\n" in printed
    assert log.read_text() == f"{bad}!\n"
    assert printed.splitlines()[-1] == "2 passed, 1 failed"
    assert "first!" not in printed.replace(f"{bad}!", "")


def test_the_end_of_the_output_repeats_what_failed_in_short(capfd):
    events = [
        {
            "failed": f"tests/a.py::test_{number}",
            "message": f"> assert 1\nE   AssertionError: {number}\nE   {'x' * 999}\nfile",
        }
        for number in range(9)
    ]
    events.insert(1, {"failed": "tests/b.py", "message": "E   AssertionError: run\nE    fatal: [node1]: FAILED! why"})
    lines = "".join(json.dumps(event) + "\n" for event in events)
    write = f"import os; open(os.environ['HEDDLE_PROGRESS_STREAM'], 'w').write({lines!r})"
    assert run_all("try", [Stage("tests", [sys.executable, "-c", f"{write}; raise SystemExit(1)"])]) == 1
    end = capfd.readouterr().out.partition("what failed, and its log\n")[2].splitlines()
    assert end[1:4] == ["    tests/a.py::test_0", "      E   AssertionError: 0", "      E   " + "x" * 296]
    assert end[4:7] == ["    tests/b.py", "      E    fatal: [node1]: FAILED! why", "      E   AssertionError: run"]
    assert end[-3:] == ["    and 2 more", "", "0 passed, 1 failed"]


def test_a_job_without_failures(capfd):
    assert run_all("try", [says("first"), says("second")]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "2 passed, 0 failed"


def test_each_playbook_of_a_stage_has_a_row(capfd):
    report = "import json, os; f = open(os.environ['HEDDLE_PROGRESS_STREAM'], 'w')\n"
    report += "for one in ('site', 'audit'): print(json.dumps({'ended': one, 'seconds': 1234.5}), file=f)"
    assert run_all("try", [Stage("playbooks", [sys.executable, "-c", report])]) == 0
    rows = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert [row for row in rows if "1234.5" in row] == [["site", "1234.5"], ["audit", "1234.5"]]
    (total,) = [row for row in rows if row[:1] == ["total"]]
    assert float(total[-2]) < 1234


def test_processor_seconds_are_those_of_the_command_and_of_all_below(capfd):
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    below = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    jobs = [Stage("burns", [sys.executable, "-c", burn]), Stage("below", [sys.executable, "-c", below])]
    assert run_all("try", [*jobs, Stage("waits", ["sleep", "0.5"]), says("bad", 1, needs=("waits",))]) == 1
    table = capfd.readouterr().out.partition("\nstage")[2].splitlines()
    assert table[0].split() == ["result", "seconds", "processor"]
    used = {line.split()[0]: float(line.split()[-1]) for line in table[1:6]}
    assert used["burns"] >= 0.5
    assert used["below"] >= 0.5
    assert used["waits"] < 0.5
    assert used["total"] == pytest.approx(sum(used[name] for name in ("burns", "below", "waits", "bad")), abs=0.21)


def test_processor_seconds_of_a_stage_that_was_interrupted(report):
    burn = "import time\nwhile time.process_time() < 0.5: pass\nprint('ready', flush=True); time.sleep(1000)"
    begun = report / "logs" / "try" / "01-burns.log"
    job = stages.Job("try", [Stage("burns", [sys.executable, "-c", burn], terminal=True)], 1, report)
    job.step()
    while "ready" not in begun.read_text():
        job.step()
    job.signals.append(signal.SIGTERM)
    while not job.over:
        job.step()
    assert job.runs["burns"].processor >= 0.5


def test_needs_of_a_failed_stage_skip_and_after_runs(capfd):
    jobs = [
        says("bad", 3),
        says("needs", needs=("bad",)),
        says("after", after=("bad",)),
        says("more", needs=("needs",)),
    ]
    assert run_all("try", jobs) == 1
    printed = capfd.readouterr().out
    assert printed.splitlines()[-1] == "1 passed, 1 failed, 2 skipped"
    assert "needs  (bad did not pass)" in printed


def test_a_stage_that_is_killed_or_cannot_be_run_has_failed(capfd):
    killed = Stage("killed", [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    assert run_all("try", [killed, Stage("missing", ["/nowhere/program"])]) == 1
    printed = capfd.readouterr().out
    assert "killed by SIGKILL" in printed
    assert "/nowhere/program cannot be run: No such file or directory" in printed
    assert printed.splitlines()[-1] == "0 passed, 2 failed"


def test_stages_run_side_by_side_up_to_the_limit_and_in_order(report):
    note = "import os, sys, time; f = open(sys.argv[1], 'a'); f.write('+'); f.flush(); time.sleep(0.2); f.write('-')"
    jobs = [Stage(str(number), [sys.executable, "-c", note, str(report / "notes")]) for number in range(5)]
    assert run_all("try", jobs, parallel=2) == 0
    running = 0
    for sign in (report / "notes").read_text():
        running += 1 if sign == "+" else -1
        assert running <= 2


def test_early_stage_starts_at_once_and_works_in_its_turn(report):
    early = "import sys, pathlib; d = pathlib.Path(sys.argv[1]); (d / 'loaded').touch(); sys.stdin.read(); " \
            "sys.exit(not (d / 'input').exists())"  # fmt: skip
    # Made only once the early one has been started: with the order reversed this would wait for ever.
    first = "import sys, pathlib, time; d = pathlib.Path(sys.argv[1])\n" \
            "while not (d / 'loaded').exists(): time.sleep(0.01)\n(d / 'input').touch()"  # fmt: skip
    jobs = [
        Stage("first", [sys.executable, "-c", first, str(report)]),
        Stage("early", [sys.executable, "-c", early, str(report)], needs=("first",), early=True),
    ]
    assert run_all("try", jobs) == 0


def test_early_stage_without_a_turn_is_ended(capfd):
    waits = Stage("early", [sys.executable, "-c", "input()"], needs=("bad",), early=True)
    assert run_all("try", [says("bad", 1), waits]) == 1
    assert capfd.readouterr().out.splitlines()[-1] == "0 passed, 1 failed, 1 skipped"


def test_junit_results(report):
    odd = Stage("odd", [sys.executable, "-c", "import sys; print('\\x1b[31m<red>\\x00'); sys.exit(1)"])
    run_all("try", [says("good"), odd, says("not", needs=("odd",))])
    suite = ElementTree.parse(report / "junit" / "try.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert suite.find("testcase[@name='odd']/failure").text.startswith("<red>")


INTERRUPTED = """
import signal, sys
from pathlib import Path
# A run under nohup(1) leaves it ignored to all that it starts.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from scripts import stages
from scripts.stages import Stage, run_all
stages.REPORT = Path(sys.argv[1])
child = "import os, signal, subprocess, sys; p = subprocess.Popen(['sleep', '1000']); " \
        "open(sys.argv[1] + '/pid', 'w').write(str(p.pid)); print('ready', flush=True); p.wait()"
remove = "import sys; open(sys.argv[1] + '/removed', 'w')"
sys.exit(run_all("try", [
    Stage("long", [sys.executable, "-c", child, sys.argv[1]]),
    Stage("next", [sys.executable, "-c", "1"], after=("long",)),
    Stage("remove", [sys.executable, "-c", remove, sys.argv[1]], after=("long", "next"), always=True),
]))
"""


def ends(process: int) -> bool:
    """Return whether a process ends; one that was killed has not ended before the kernel has run it once more."""
    return any(identity(process) is None for _attempt in attempts(600))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_ends_all_processes_and_still_removes(report, number):
    command = [sys.executable, "-c", INTERRUPTED, str(report)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VERBOSE": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as job:
        assert any("ready" in line for line in job.stdout)
        job.send_signal(number)
        rest = job.stdout.read()
    assert job.returncode == 1
    assert (report / "removed").exists()
    assert rest.splitlines()[-1] == "1 passed, 1 failed, 1 skipped"
    assert ends(int((report / "pid").read_text()))


def test_pytest_reports_failures_skips_and_progress(capfd, report):
    file = report / "test_three.py"
    file.write_text(
        "import os, pytest\n"
        "def test_good(): assert 'HEDDLE_PROGRESS_STREAM' not in os.environ\n"
        "def test_bad():\n    answer = 41\n    assert answer == 42, 'wrong answer'\n"
        "def test_not(): pytest.skip('no such device')\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "scripts.pytest_progress", "--rootdir", str(report), str(file)]
    assert run_all("try", [Stage("tests", command)]) == 1
    printed = capfd.readouterr().out
    assert "test_three.py::test_bad (call)" in printed
    assert "wrong answer" in printed
    assert "answer = 41" in printed
    assert "1 tests skipped\n     1  no such device" in printed


def test_the_slowest_tests_of_a_stage_are_reported(report):
    stream = report / "stream"
    reporter = Reporter(stream)
    for number in range(15):
        for seconds in (0.25, number, 0.25):
            phase = SimpleNamespace(nodeid=f"test_{number}", duration=seconds, failed=False, skipped=False)
            reporter.pytest_runtest_logreport(phase)
    reporter.pytest_sessionfinish()
    (event,) = map(json.loads, stream.read_text().splitlines())
    assert event == {"slowest": [[f"test_{number}", number + 0.5] for number in range(14, 4, -1)]}


def test_tests_of_less_than_a_second_are_not_reported_as_slow(report):
    reporter = Reporter(report / "stream")
    reporter.pytest_runtest_logreport(SimpleNamespace(nodeid="test_a", duration=0.5, failed=False, skipped=False))
    reporter.pytest_sessionfinish()
    assert json.loads((report / "stream").read_text()) == {"slowest": []}


def test_the_slowest_tests_are_printed_before_the_table(capfd):
    report = "import json, os; f = open(os.environ['HEDDLE_PROGRESS_STREAM'], 'w')\n"
    report += "print(json.dumps({'slowest': [['tests/live/test_a.py::test_b[4]', 61.25], ['test_c', 2]]}), file=f)"
    assert run_all("try", [says("other"), Stage("live", [sys.executable, "-c", report])]) == 0
    printed = capfd.readouterr().out
    assert "\nslowest tests  live\n    61.2  live/test_a.py::test_b[4]\n     2.0  test_c\n\nstage " in printed
    assert printed.count("slowest tests") == 1


def test_closed_terminal_ends_all_processes_and_still_removes(report):
    """As when a window is closed: the signal comes, and what is printed fails."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", INTERRUPTED, str(report)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VERBOSE": "1", "TERM": "dumb"}
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(command, **streams, env=environment, start_new_session=True) as job:
        os.close(theirs)
        printed = b""
        while b"ready" not in printed:
            printed += os.read(ours, 4096)
        os.close(ours)
        job.send_signal(signal.SIGHUP)
        assert job.wait(600) == 1
    assert (report / "removed").exists()
    assert ends(int((report / "pid").read_text()))


def test_job_that_ignores_a_closed_terminal_goes_on(report):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        hang_up = Stage("hang up", [sys.executable, "-c", "import os, signal; os.kill(os.getppid(), signal.SIGHUP)"])
        assert run_all("try", chain([hang_up, says("next")])) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
