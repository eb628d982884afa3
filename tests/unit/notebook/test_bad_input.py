# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in a notebook: a sentence with the remedy, and nothing that a further run does not complete."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import papermill
import pytest

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT / "notebooks") not in sys.path:
    sys.path.insert(0, str(ROOT / "notebooks"))

from heddle_notebook import Fleet, HeddleError, Lab, PlayFailed, Recorder, play  # noqa: E402
from lab.config import Network  # noqa: E402
from tests.unit.notebook.test_driving import LOCAL, VARIABLES, ran, running  # noqa: E402

PATIENCE = 600
# A port that nothing listens on.
DOWN = {"ansible_host": "127.0.0.1", "ansible_port": 9, "ansible_ssh_common_args": "-F /dev/null"}


@pytest.fixture
def no_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_DIR", str(tmp_path / "lab"))
    return tmp_path / "lab"


@pytest.mark.parametrize("call", [
    lambda fleet: fleet.play("site"),
    lambda fleet: fleet.check(),
    lambda fleet: fleet.audit(),
    lambda fleet: fleet.command("node1", ["true"]),
])  # fmt: skip
def test_no_lab(no_lab: Path, tmp_path: Path, call) -> None:
    with pytest.raises(HeddleError, match=r"^there is no lab; call Lab\(\)\.up\(\), or run make lab$"):
        call(Fleet(report=tmp_path / "report"))
    assert not (tmp_path / "report" / "runs").exists() or not list((tmp_path / "report" / "runs").iterdir())


def test_verbs_without_a_lab(no_lab: Path) -> None:
    lab = Lab()
    assert not len(lab.hosts)
    assert "there is no lab" in lab._repr_html_()
    lab.down()
    with pytest.raises(HeddleError, match=r"^there is no lab; call"):
        lab.require()
    with pytest.raises(HeddleError, match=r"^lab kill failed: there is no lab; run: python -m lab up$"):
        lab.kill("node1")
    with pytest.raises(HeddleError, match=r"^lab kill failed: there is no host node9; use one of node1, "):
        lab.kill("node9")
    with pytest.raises(HeddleError, match=r"^lab load failed: there is no checkpoint nothing"):
        lab.load("nothing")


def test_a_lab_of_another_driver(no_lab: Path, tmp_path: Path) -> None:
    no_lab.mkdir()
    network = Network()
    state = {
        "driver": "uml", "reason": "a test", "missing_features": [], "image": "none", "runtime": str(tmp_path / "run"),
        "network": [network.prefix, network.prefix6], "uml": {"kernel": "none"},
    }  # fmt: skip
    (no_lab / "lab.json").write_text(json.dumps(state))
    message = r"^lab up failed: the lab runs with driver uml, not nspawn; run: python -m lab down, or choose another"
    with pytest.raises(HeddleError, match=message):
        Lab("nspawn").up()
    assert json.loads((no_lab / "lab.json").read_text()) == state


def test_a_verb_is_interrupted(no_lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_words, **_named) -> None:
        raise KeyboardInterrupt

    # The first line that the lab prints, as of a person who stops it then.
    monkeypatch.setattr("builtins.print", interrupted)
    with pytest.raises(HeddleError, match=r"^lab down was interrupted; call it again, or down\(\)$"):
        Lab().down()


def test_a_host_that_is_down(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"here": VARIABLES, "gone": DOWN}}}))
    fleet = Fleet(tmp_path / "hosts.yml", tmp_path / "report")
    message = (
        r"^true failed: gone: Run true: .+; bring gone up and run it again, it completes what it began; all output is"
    )
    with pytest.raises(PlayFailed, match=message) as caught:
        fleet.commands(["here", "gone"], ["true"])
    assert "\n" not in str(caught.value)
    assert list(fleet.answers(["here", "gone"], ["true"])) == ["here"]


def test_a_killed_kernel_ends_ansible(tmp_path: Path) -> None:
    """As a restart of the kernel, which gives it no time to do anything."""
    mark = tmp_path / "pid"
    task = {"name": "Wait", "ansible.builtin.command": {"argv": ["sh", "-c", f"echo $$ > {mark}; exec sleep 3600"]}}
    (tmp_path / "hosts.yml").write_text(LOCAL)
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, 'notebooks'); from heddle_notebook import play\n"
        "here = Path(sys.argv[1])\n"
        "play.run('test', here / 'runs', playbook=str(here / 'play.yml'), inventory=str(here / 'hosts.yml'))\n"
    )
    kernel = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT)
    until(lambda: mark.exists() and mark.read_text().strip())
    kernel.send_signal(signal.SIGKILL)
    kernel.wait()
    until(lambda: not running("ansible-playbook", str(tmp_path)))
    # What it began on a host may go on; a host cannot know.
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(mark.read_text()), signal.SIGKILL)
    assert ran(tmp_path, {"name": "Again", "ansible.builtin.command": {"argv": ["true"]}}).state == "successful"


def until(condition) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def test_a_mistake_in_a_cell_is_one_sentence(no_lab: Path, tmp_path: Path) -> None:
    """In an executed notebook, as a person reads it."""
    text = f"import sys\nsys.path.insert(0, {str(ROOT / 'notebooks')!r})\nfrom heddle_notebook import Fleet"
    page = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in (text, f"Fleet(report={str(tmp_path)!r}).play('site')")]
    )
    page.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(page, tmp_path / "page.ipynb")
    with pytest.raises(papermill.PapermillExecutionError):
        papermill.execute_notebook(str(tmp_path / "page.ipynb"), str(tmp_path / "done.ipynb"), progress_bar=False)
    failed = [
        output
        for cell in nbformat.read(tmp_path / "done.ipynb", as_version=4).cells
        for output in cell.get("outputs", ())
        if output.output_type == "error"
    ]
    assert [one.traceback for one in failed] == [["HeddleError: there is no lab; call Lab().up(), or run make lab"]]


def test_a_large_result_is_kept(tmp_path: Path) -> None:
    """ansible-runner drops results of more than 700,000 characters by default."""
    (tmp_path / "hosts.yml").write_text(LOCAL)
    fleet = Fleet(tmp_path / "hosts.yml", tmp_path / "report")
    said = fleet.command("here", [sys.executable, "-c", "print('x' * 1000000)"])["stdout"]
    assert len(said) == 1000000


def test_a_command_that_fails_without_a_word() -> None:
    assert (
        play._message({"rc": 3, "stdout": " \n", "stderr": "", "msg": "non-zero return code"}) == "non-zero return code"
    )


def test_an_interval_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(LOCAL)
    with pytest.raises(HeddleError, match=r"^interval is 0 s; it can be 0\.002 to 60$"):
        Recorder(Fleet(tmp_path / "hosts.yml", tmp_path), "a/b", "c/d", interval=0)


@pytest.mark.parametrize("uid, flag", [("0", True), ("1000", False)])
def test_jupyterlab_starts_as_root_too(tmp_path: Path, uid: str, flag: bool) -> None:
    """JupyterLab refuses root without the option; the lab's containers need root."""
    (tmp_path / "id").write_text(f"#!/bin/sh\necho {uid}\n")
    (tmp_path / "id").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["make", "--no-print-directory", "-n", "notebook"]
    said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert "--ip=127.0.0.1" in said
    assert ("--allow-root" in said) == flag
