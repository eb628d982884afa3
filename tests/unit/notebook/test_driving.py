# SPDX-License-Identifier: Apache-2.0
"""The library of the notebooks that operates a fleet: runs, their results, and sentences for what goes wrong."""

from __future__ import annotations

import _thread
import json
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT / "notebooks") not in sys.path:
    sys.path.insert(0, str(ROOT / "notebooks"))

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts  # noqa: E402
from heddle_notebook import Chaos, Fleet, HeddleError, Interrupted, Operation, PlayFailed, play  # noqa: E402 - needs the path above
from heddle_notebook.capture import read_pcap  # noqa: E402
from heddle_notebook.frames import Audit, Status, Verify  # noqa: E402
from heddle_notebook.progress import Progress  # noqa: E402
from heddle_notebook.recorder import read_echoes  # noqa: E402
from tests.fleet import write_report  # noqa: E402
from tests.pipeline import layer2, layer3, namespace, plan_of, workload  # noqa: E402

VARIABLES = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
LOCAL = json.dumps({"all": {"hosts": {"here": VARIABLES}}})
SAMPLE = ROOT / "tests" / "data" / "first_light"


def running(*words: str) -> list[str]:
    """Return the processes whose command has all words."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = place.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if all(word in command for word in words):
            found.append(place.parent.name)
    return found


def ran(directory: Path, *tasks: dict, **arguments) -> play.Run:
    """Run tasks on this machine."""
    (directory / "hosts.yml").write_text(LOCAL)
    (directory / "play.yml").write_text(
        json.dumps([{"name": "A play", "hosts": "all", "gather_facts": False, "tasks": list(tasks)}])
    )
    return play.run(
        "test", directory / "runs", playbook=str(directory / "play.yml"), inventory=str(directory / "hosts.yml"),
        **arguments,
    )  # fmt: skip


def copying(directory: Path) -> dict:
    target = str(directory / "target")
    return {"name": "Write", "ansible.builtin.copy": {"content": "new\n", "dest": target, "mode": "0600"}}


def test_a_run_has_tasks_changes_messages_and_artifacts(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    show = {"name": "Show", "ansible.builtin.debug": {"msg": "two hosts"}}
    checked = ran(tmp_path, copying(tmp_path), show, cmdline="--check --diff")
    assert checked.messages == {"Show": "two hosts"}
    assert not (tmp_path / "target").exists()
    assert checked.changes[["host", "task", "after"]].to_numpy().tolist() == [["here", "Write", "new\n"]]
    done = ran(tmp_path, copying(tmp_path))
    assert done.state == "successful"
    assert done.tasks[["task", "host", "result", "changed"]].to_numpy().tolist() == [["Write", "here", "ok", True]]
    assert (done.directory / "stdout").is_file()
    assert json.loads((done.directory / play.RESULT).read_text())["changed"] == 1
    assert "test: successful, 1 hosts, 1 tasks, 1 changed, 0 failed" in capsys.readouterr().out


def test_a_failed_run_is_one_sentence(tmp_path: Path) -> None:
    failing = {"name": "Break", "ansible.builtin.command": {"argv": ["sh", "-c", "echo no disk >&2; exit 3"]}}
    run = ran(tmp_path, failing)
    with pytest.raises(PlayFailed, match=r"^test failed: here: Break: no disk; all output is in \S+/stdout$") as caught:
        play.required(run)
    assert caught.value._render_traceback_() == [f"PlayFailed: {caught.value}"]


def test_an_inventory_that_does_not_parse(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("{[")
    fleet = Fleet(tmp_path / "hosts.yml", tmp_path / "report")
    with pytest.raises(PlayFailed, match=r"^status failed: Unable to parse \S+hosts\.yml as an inventory source; "):
        fleet.status()


def test_an_interrupt_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    following = Progress.event

    def event(progress: Progress, found: dict) -> None:
        following(progress, found)
        if found["event"] == "playbook_on_task_start":
            _thread.interrupt_main()

    monkeypatch.setattr(Progress, "event", event)
    waiting = {"name": "Wait", "ansible.builtin.command": {"argv": ["sleep", "3600"]}}
    # As a kernel does: tests that a script began in the background ignore the signal, and the interrupt has no effect.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Interrupted, match="run it again, it completes what it began"):
            ran(tmp_path, waiting)
    finally:
        signal.signal(signal.SIGINT, handler)


def test_the_history_has_the_last_run_first(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(LOCAL)
    fleet = Fleet(tmp_path / "hosts.yml", tmp_path / "report")
    assert len(fleet.history()) == 0
    for number in (1, 2):
        directory = fleet.runs_directory / str(number)
        directory.mkdir()
        run = play.Run(f"run{number}", "successful", f"2026-01-0{number}T00:00:00+00:00", 1.0, directory)
        (directory / play.RESULT).write_text(json.dumps(run.summary()))
    assert fleet.history()["name"].tolist() == ["run2", "run1"]


@pytest.mark.parametrize("call, message", [
    (lambda fleet: fleet.play("nothing"), "there is no playbook nothing; there are audit, "),
    (lambda fleet: fleet.logical("nothing"), "there is no network nothing; there are "),
    (lambda fleet: fleet.trace("red/w1", "red/none"), "there is no workload red/none; write NAMESPACE/NAME"),
    (lambda fleet: fleet.trace("red/w1", "blue/w1", "red_net"), "have no common network"),
    (lambda fleet: fleet.capture("node1", "eth0", "; reboot"), "is none of pcap-filter"),
    (lambda fleet: fleet.capture("node1", "eth0", seconds=0), "seconds is 0"),
    (lambda fleet: fleet.validate("nowhere"), "no manifests at nowhere: there is neither a file nor a directory"),
    (lambda fleet: fleet.apply("kind: Nothing\n"), "nothing was applied"),
    (lambda fleet: fleet.audit.__self__._result("audit", "audit"), "audit.json is missing; run the playbook audit"),
])  # fmt: skip
def test_mistakes_are_sentences(tmp_path: Path, call, message: str) -> None:
    (tmp_path / "hosts.yml").write_text(LOCAL)
    fleet = Fleet(tmp_path / "hosts.yml", write_report(tmp_path / "report"))
    with pytest.raises(HeddleError, match=message):
        call(fleet)


def test_no_inventory(tmp_path: Path) -> None:
    with pytest.raises(HeddleError, match="there is no inventory"):
        Fleet(tmp_path / "none")


def test_pictures_of_the_last_status(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(LOCAL)
    fleet = Fleet(tmp_path / "hosts.yml", write_report(tmp_path / "report"))
    assert "red_net_transit_router" in fleet.logical("red_net").svg
    assert "node3" in fleet.physical().svg
    assert fleet.address("red/w1") == "10.0.0.3"
    assert fleet.last_status().ready


def test_problems_of_manifests_are_a_frame(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(LOCAL)
    fleet = Fleet(tmp_path / "hosts.yml", tmp_path / "report")
    assert len(fleet.validate(namespace("red") + layer2("red", "net", "10.0.0.0/24"))) == 0
    found = fleet.validate(namespace("red") + layer2("red", "net", "10.0.0.0/99"))
    assert found["object"].tolist() == ["UserDefinedNetwork red/net"]


def test_frames_of_results(tmp_path: Path) -> None:
    status = Status(json.loads((write_report(tmp_path) / "status.json").read_text()))
    assert status.networks["name"].tolist() == ["default", "blue_net", "red_net"] or status.ready
    assert set(status.workloads["workload"]) == {"red/w1", "red/w2", "red/w3", "blue/w1"}
    assert "passed" in status._repr_html_()
    verify = Verify(json.loads((SAMPLE / "verify.json").read_text()))
    assert verify.passed
    assert len(verify.networks)
    flow = {
        "kind": "workload to service", "source": "red/w1", "target": "red/web TCP 80", "family": 4, "port": 80,
        "address": "10.96.0.9", "protocol": "TCP", "reach": True, "reason": "same network", "result": "reached",
    }  # fmt: skip
    flows = Verify({**verify.content, "north_south": {"flows": [{**flow, "mac": ""}]}}).flows
    assert flows.to_dict("records") == [flow]
    pair = {"source": "red/w1", "target": "red/w2", "network": "red_net", "family": 4, "address": "10.0.0.4",
            "reach": True, "reason": "same network", "result": "reached"}  # fmt: skip
    assert Verify({**verify.content, "pairs": [{**pair, "mtu": 0}]}).pairs.to_dict("records") == [pair]


def test_an_audit_is_compared_with_an_earlier_one() -> None:
    def audit(*notes: str) -> Audit:
        host = {"causes": [], "foreign": [], "drift": [], "checked": 3, "notes": list(notes)}
        return Audit({"passed": True, "time": "t", "problems": [], "hosts": {"node1": host}})

    changes = audit("kept", "added").since(audit("kept", "fixed"))
    assert sorted(changes[["finding", "change"]].to_numpy().tolist()) == [["added", "new"], ["fixed", "gone"]]
    # One of another host is not gone.
    other = Audit({**audit("a note").content, "hosts": {"node2": audit("a note").content["hosts"]["node1"]}})
    assert not (other.since(audit("kept"))["change"] == "gone").any()


def test_echoes_are_read_with_those_that_were_lost() -> None:
    text = (
        "PING 10.0.0.4 (10.0.0.4) 56(84) bytes of data.\n"
        "[1795251038.10] 64 bytes from 10.0.0.4: icmp_seq=1 ttl=64 time=0.5 ms\n"
        "[1795251038.20] no answer yet for icmp_seq=2\n"
        "[1795251038.30] no answer yet for icmp_seq=3\n"
        "[1795251038.31] 64 bytes from 10.0.0.4: icmp_seq=3 ttl=64 time=110 ms\n"
    )
    echoes = read_echoes(text)
    assert echoes["sequence"].tolist() == [1, 2, 3]
    assert echoes["milliseconds"].isna().tolist() == [False, True, False]


def test_a_capture_is_read() -> None:
    ip = bytes([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]) + struct.pack("!HHHH", 9, 53, 8, 0)
    frame = bytes.fromhex("0200000000020200000000010800") + ip
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    record = struct.pack("<4I", 1, 500000, len(frame), len(frame)) + frame
    (packet,) = read_pcap(head + record + record[:20])
    found = packet["source"], packet["target"], packet["protocol"], packet["dport"]
    assert found == ("10.0.0.1", "10.0.0.2", "udp", 53)
    assert packet["source_mac"] == "02:00:00:00:00:01"
    assert read_pcap(b"") == []
    with pytest.raises(ValueError, match="no pcap"):
        read_pcap(b"x" * 40)


def test_legs_of_a_packet_between_two_workloads() -> None:
    plan = plan_of(
        namespace("red") + layer2("red", "net", "10.0.0.0/24")
        + namespace("far") + layer3("far", "net", "10.1.0.0/16", 24)
        + workload("red", "a", "node1") + workload("red", "b", "node1") + workload("red", "c", "node2")
        + workload("far", "a", "node1") + workload("far", "b", "node2")
    )  # fmt: skip
    from ansible_collections.heddle.ovn.plugins.module_utils.verify.packets import packets_between

    def nodes(source: str, target: str, network: str = "") -> list[str]:
        return [leg["node"] for leg in packets_between(plan, source, target, network)]

    assert nodes("red/a", "red/b") == ["node1"]
    assert nodes("red/a", "red/c") == ["node1", "node2"]
    assert nodes("far/a", "far/b") == ["node1", "node2"]
    assert nodes("red/a", "far/b") == nodes("red/a", "red/a") == nodes("red/a", "red/c", "far_net") == []


def test_reports_do_not_load_pandas() -> None:
    code = "import sys; sys.path.insert(0, 'notebooks'); import heddle_notebook; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_a_run_that_is_stopped_after_a_task_is_completed_by_the_next(tmp_path: Path) -> None:
    tasks = [copying(tmp_path), {"name": "Last", "ansible.builtin.command": {"argv": ["sleep", "3600"]}}]
    with pytest.raises(Interrupted, match=r"^test was interrupted; run it again, it completes what it began$"):
        ran(tmp_path, *tasks, stop_after="Write")
    assert (tmp_path / "target").read_text() == "new\n"
    # A killed process is gone when the kernel has run it once more.
    assert any(not running("ansible-playbook", str(tmp_path)) for _attempt in attempts(600, longest=0.2))
    assert not ran(tmp_path, copying(tmp_path)).tasks["changed"].any()


def test_echoes_of_a_workload_that_moved() -> None:
    one = "PING 10.0.0.1\n[1.0] 64 bytes: icmp_seq=1 ttl=64 time=1.5 ms\n[1.2] no answer yet for icmp_seq=2\n"
    two = "PING 10.0.0.1\n[9.0] 64 bytes: icmp_seq=1 ttl=64 time=2.5 ms\n"
    for text in (one + two, two + one):
        echoes = read_echoes(text)
        assert echoes["time"].tolist() == [1.0, 1.2, 9.0]
        assert echoes["milliseconds"].fillna(0).tolist() == [1.5, 0, 2.5]


def test_workloads_of_a_host_get_another_one(tmp_path: Path) -> None:
    write_report(tmp_path)
    fleet = Fleet(ROOT / "inventories" / "lab", tmp_path)
    nodes = list(fleet.plan()["nodes"])
    text = "".join(
        f"---\napiVersion: heddle.dev/v1\nkind: Workload\nmetadata: {{name: w{number}, namespace: a}}\n"
        f"spec: {{node: {node}}}\n"
        for number, node in enumerate(nodes)
    )
    moved = list(yaml.safe_load_all(fleet.moved(text, nodes[0], nodes[1])))
    assert [one["spec"]["node"] for one in moved] == [nodes[1], *nodes[1:]]
    with pytest.raises(HeddleError, match=rf"^there is no host nowhere; there are {nodes[0]}, "):
        fleet.moved(text, nodes[0], "nowhere")


def test_an_operation_is_confirmed_or_stops() -> None:
    asked = []

    def answer(question: str) -> str:
        asked.append(question)
        return answers.pop()

    answers = ["no", "yes"]
    operation = Operation("me", ["add"], answer)
    operation.confirm("add", "Add?")
    operation.confirm("drain", "Drain?")
    with pytest.raises(HeddleError, match=r"^restore was not confirmed; nothing was changed by it$"):
        operation.confirm("restore", "Restore?")
    assert asked == [f"{name}? yes continues, anything else stops: " for name in ("Drain", "Restore")]
    assert operation.record["text"].tolist() == [
        "operator me", "confirmed by a parameter", "answered 'yes'", "answered 'no'",
    ]  # fmt: skip
    with pytest.raises(HeddleError, match="set the parameter operator"):
        Operation("")


def test_no_operator_to_ask() -> None:
    def absent(_question: str) -> str:
        raise EOFError

    with pytest.raises(HeddleError, match=r"^add is not confirmed; name it in the parameter confirmed, or run the"):
        Operation("me", (), absent).confirm("add", "Add?")


def test_an_unknown_damage(tmp_path: Path) -> None:
    with pytest.raises(HeddleError, match=r"^there is no damage 'flood'; there are nftables flushed, "):
        Chaos(Fleet(ROOT / "inventories" / "lab", tmp_path), "node1").inflict("flood")
