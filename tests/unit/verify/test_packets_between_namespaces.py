# SPDX-License-Identifier: Apache-2.0
"""The responder and the prober with real packets: two tenants with the same addresses on this machine's kernel."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.naming import MESH_TOPOLOGY
from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import HostPlans
from ansible_collections.heddle.ovn.plugins.module_utils.verify.evaluation import evaluate, unconfirmed
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.selection import ALL, Selection
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.datagram import answer, question, read_question
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.listening import Listener, listeners, places
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.prober import (
    Expectations,
    expand,
    expand_again,
    probe,
    probe_again,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.processes import Responder
from tests.live.gateway.packets import checksum

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

RUN = f"t{os.getpid()}"
PORT = 7654
# Only the families differ between the tenants' plans: red and blue have equal addresses on separate wires.
ADDRESSES = {"1": ("10.0.0.3/24", "fd00:10::3/64"), "2": ("10.0.0.4/24", "fd00:10::4/64")}


def interface(tenant: str, number: str) -> dict:
    return {
        "network": f"{tenant}_net",
        "name": "ovn-udn1",
        "role": "primary",
        "port": f"{tenant}{number}",
        "nad": None,
        "mac": f"0a:58:0a:00:00:0{number}",
        "mtu": 1400,
        "addresses": list(ADDRESSES[number]),
        "routes": [],
        "tunnel_id": None,
    }


def workload(tenant: str, number: str) -> dict:
    return {
        "node": "here",
        "kind": "netns",
        "namespace": f"{RUN}{tenant}",
        "name": f"{tenant}{number}",
        "interfaces": [interface(tenant, number)],
    }


EVERY_PAIR = Selection(ALL)
PLAN = {
    "deployment": "test",
    "digest": "d",
    "revision": 1,
    "settings": {},
    "nodes": {"here": {"id": 2, "chassis": "c", "encap_ips": [], "addresses": []}},
    "networks": {
        f"{tenant}_net": {
            "id": 1,
            "topology": "Layer2",
            "families": [4, 6],
            "mtu": 1400,
            "subnets": ["10.0.0.0/24", "fd00:10::/64"],
        }
        for tenant in ("red", "blue")
    },
    "workloads": {f"{tenant}/{number}": workload(tenant, number) for tenant in ("red", "blue") for number in "12"},
}


def namespace_of(tenant: str, number: str) -> str:
    return f"{RUN}{tenant}_{tenant}{number}"


def connect(tenant: str) -> None:
    """Put a wire between a tenant's two workloads."""
    from pyroute2 import IPRoute

    one, two = namespace_of(tenant, "1"), namespace_of(tenant, "2")
    for name in (one, two):
        kernel.create_namespace(name, "")
    with kernel.in_netns(one), IPRoute() as route:
        route.link("add", ifname="wire", kind="veth", peer={"ifname": "wire", "net_ns_fd": two})
    for number in "12":
        kernel.change_link(namespace_of(tenant, number), "wire", state="up")
        kernel.change_addresses(namespace_of(tenant, number), "wire", set(ADDRESSES[number]), set())


@pytest.fixture
def wires() -> Iterator[None]:
    try:
        connect("red")
        connect("blue")
        yield
    finally:
        for name in kernel.namespaces():
            if name.startswith(RUN):
                kernel.remove_namespace(name)


@pytest.fixture
def responder(tmp_path: Path) -> Iterator[Responder]:
    one = Responder(str(tmp_path))
    yield one
    one.stop(write=True)


def start(responder: Responder, lifetime: float = 3600) -> tuple[bool, list[str]]:
    return responder.start(listeners(PLAN, "here"), PORT, lifetime, write=True)


def ask(timeout: float = 60, plan: dict = PLAN) -> tuple[dict, list[str]]:
    """Return the host's input for `evaluate` after one pass, and the problems."""
    asked = Expectations.of(plan, "here", {}, EVERY_PAIR)
    record, problems = probe(asked, places(PLAN, "here"), PORT, timeout)
    seen = expand(record, asked)
    more = {"received": [], "digest": HostPlans(plan).digests["here"], "problems": []}
    return {"seen": seen, "slowest": record["slowest"], **more}, problems


def ask_again(host: dict, timeout: float = 60, plan: dict = PLAN) -> dict:
    """Return the same after what got no answer was asked alone."""
    asked = Expectations.of(plan, "here", {}, EVERY_PAIR)
    wanted = set(unconfirmed(evaluate(plan, {"here": host}, None, EVERY_PAIR)))
    numbers = [
        number for number, row in enumerate(asked.rows) if (row.source, row.target, row.network, row.address) in wanted
    ]
    again = {"unconfirmed": numbers, "good": asked.known_good(host["seen"]), "slowest": host["slowest"] / 1000}
    record, _problems = probe_again(asked, again, places(PLAN, "here"), PORT, timeout)
    return {**host, "again": expand_again(record, asked, host["seen"])}


def process_of(responder: Responder) -> int:
    return json.loads(Path(responder.state_file).read_text())["pid"]


def test_tenants_with_equal_addresses_are_distinguished(wires: None, responder: Responder) -> None:
    assert start(responder) == (True, [])
    host, problems = ask()
    assert problems == []
    _stopped, heard, _problems = responder.stop(write=True)
    report = evaluate(PLAN, {"here": {**host, "received": heard}}, None, EVERY_PAIR)
    assert report["passed"], report["failures"]
    assert report["counts"] == {"pairs": 24, "reached": 8, "isolated": 16, "failed": 0, "not tested": 0}
    assert report["matrix"] == {"red/1": "-+..", "red/2": "+-..", "blue/1": "..-+", "blue/2": "..+-"}
    # The address of blue/2 exists in red as well, so a plain ping would have succeeded.
    strange = next(one for one in report["pairs"] if (one["source"], one["target"]) == ("red/1", "blue/2"))
    assert (strange["answered_by"], strange["answered_on"], strange["result"]) == ("red/2", "red_net", "isolated")


def test_silence_and_wrong_answers_fail_reachability(wires: None, responder: Responder) -> None:
    kernel.change_link(namespace_of("red", "2"), "wire", state="down")
    start(responder)
    report = evaluate(PLAN, {"here": ask_again(ask()[0])}, None, EVERY_PAIR)
    assert not report["passed"]
    assert "red/1 -> red/2 10.0.0.4 (network red_net, IPv4): no answer (asked alone 5 times)" in report["failures"]
    assert {one["source"] for one in report["pairs"] if one["result"] == "failed"} == {"red/1", "red/2"}


@pytest.mark.parametrize("stays", [True, False])
def test_wrong_answers_fail_only_when_they_come_again(wires: None, responder: Responder, stays: bool) -> None:
    """Another workload has the addresses of red/2, for ever or while the questions are asked the first time."""
    other = [replace(one, workload="red/9") if one.workload == "red/2" else one for one in listeners(PLAN, "here")]
    responder.start(other, PORT, 60, write=True)
    host, _problems = ask()
    first = evaluate(PLAN, {"here": host}, None, EVERY_PAIR)
    assert first["failures"] == [
        f"red/1 -> red/2 {address} (network red_net, IPv{family}): answered by red/9 on red_net"
        for family, address in ((4, "10.0.0.4"), (6, "fd00:10::4"))
    ]
    if not stays:
        responder.stop(write=True)
        start(responder)
    report = evaluate(PLAN, {"here": ask_again(host)}, None, EVERY_PAIR)
    again = [f"{line} (also when asked alone)" for line in first["failures"]]
    assert report["failures"] == (again if stays else [])


def on_the_mesh(*networks: str) -> dict:
    """Return the plan with these networks on the mesh."""
    described = {
        name: {**network, "topology": MESH_TOPOLOGY} if name in networks else network
        for name, network in PLAN["networks"].items()
    }
    return {**PLAN, "networks": described}


@pytest.mark.parametrize(("meshes", "near"), [((), True), (("red_net",), False)])
def test_silence_on_a_mesh_is_not_compared_with_answers_on_other_networks(wires, responder, meshes, near) -> None:
    """Only the answers of red_net are missing, so controls are on blue_net."""
    kernel.change_link(namespace_of("red", "2"), "wire", state="down")
    start(responder)
    plan = on_the_mesh(*meshes)
    host = ask_again(ask(plan=plan)[0], plan=plan)
    found = [one["near"] for (_source, target, *_rest), one in host["again"].items() if target.startswith("red/")]
    assert found == [near] * 4
    assert {name for one in evaluate(plan, {"here": host}, None, EVERY_PAIR)["failures_by_hosts"]
            for name in one["networks"]} == {"red_net"}  # fmt: skip


def test_link_mtu_black_hole_is_the_only_failure(wires: None, responder: Responder) -> None:
    """A black hole: one end of the wire takes 1,300 bytes, and the other one gets no ICMP error."""
    kernel.change_link(namespace_of("red", "2"), "wire", mtu=1300)
    start(responder)
    report = evaluate(PLAN, {"here": ask_again(ask()[0])}, None, EVERY_PAIR)
    wrong = "packets of 1400 bytes get no answer, small ones do (asked alone 5 times)"
    assert report["failures"] == [
        f"red/{one} -> red/{other} {address.partition('/')[0]} (network red_net, IPv{family}): {wrong}"
        for one, other in (("1", "2"), ("2", "1"))
        for family, address in zip((4, 6), ADDRESSES[other], strict=True)
    ]


def report_small_mtu(mtu: int) -> None:
    """Send red/1 a notice of red/2 that its packets are too big (RFC 792, RFC 1191)."""
    sender, target = (socket.inet_aton(ADDRESSES[number][0].partition("/")[0]) for number in "12")
    # About an echo reply, which the kernel sends itself: no socket has to be open.
    echo = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 1400, 1, 0x4000, 64, 1, 0, sender, target) + bytes(8)
    unsummed = struct.pack("!BBHHH", 3, 4, 0, 0, mtu) + echo
    notice = unsummed[:2] + struct.pack("!H", checksum(unsummed)) + unsummed[4:]
    with (
        kernel.in_netns(namespace_of("red", "2")),
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw,
    ):
        raw.sendto(notice, (socket.inet_ntoa(sender), 0))


def test_path_mtu_of_a_former_path_is_no_failure(wires: None, responder: Responder) -> None:
    """A kernel keeps it for 10 minutes after the path has been healed."""
    route = ["ip", "-n", namespace_of("red", "1"), "route", "get", "10.0.0.4"]
    for _attempt in attempts(600):
        # The kernel may deliver it later, or lose it where the wire is not in operation yet.
        report_small_mtu(1300)
        shown = subprocess.run(route, check=True, capture_output=True, text=True).stdout
        if "mtu 1300" in shown:
            break
    assert "mtu 1300" in shown
    start(responder)
    report = evaluate(PLAN, {"here": ask_again(ask()[0])}, None, EVERY_PAIR)
    assert report["passed"], report["failures"]


def test_large_packet_that_was_lost_once_is_no_failure(wires: None, responder: Responder) -> None:
    """The same question is a control as well, which is sent in small packets only."""
    kernel.change_link(namespace_of("red", "2"), "wire", mtu=1300)
    start(responder)
    host, _problems = ask()
    kernel.change_link(namespace_of("red", "2"), "wire", mtu=1500)
    report = evaluate(PLAN, {"here": ask_again(host)}, None, EVERY_PAIR)
    assert (report["passed"], report["failures"], report["not_tested"]) == (True, [], [])


def test_answer_to_a_repeat_is_no_failure(wires: None, responder: Responder) -> None:
    start(responder)
    kernel.change_addresses(namespace_of("red", "2"), "wire", set(), {"10.0.0.4/24"})
    host, _problems = ask()
    wanted = {(one[0], one[1], one[3]) for one in unconfirmed(evaluate(PLAN, {"here": host}, None, EVERY_PAIR))}
    assert {("red/1", "red/2", "10.0.0.4"), ("red/2", "red/1", "10.0.0.3")} <= wanted
    kernel.change_addresses(namespace_of("red", "2"), "wire", {"10.0.0.4/24"}, set())
    report = evaluate(PLAN, {"here": ask_again(host)}, None, EVERY_PAIR)
    assert (report["passed"], report["failures"], report["not_tested"]) == (True, [], [])


def test_missing_responder_makes_results_not_tested(wires: None) -> None:
    report = evaluate(PLAN, {"here": ask_again(ask(timeout=1)[0], timeout=1)}, None, EVERY_PAIR)
    assert (report["passed"], report["failures"]) == (False, [])
    assert report["counts"]["not tested"] == 24
    assert (
        "red/1: 2 addresses not tested, too slow to evaluate: known-good questions took more than 1 s"
        in (report["not_tested"])
    )


def test_second_start_changes_nothing_and_a_new_namespace_needs_a_new_responder(
    wires: None, responder: Responder
) -> None:
    assert responder.start(listeners(PLAN, "here"), PORT, 60, write=False) == (True, [])
    assert responder.stop(write=True)[:2] == (False, [])
    start(responder)
    first = process_of(responder)
    assert start(responder) == (False, [])
    assert process_of(responder) == first
    kernel.remove_namespace(namespace_of("red", "1"))
    kernel.remove_namespace(namespace_of("red", "2"))
    connect("red")
    assert start(responder) == (True, [])
    assert process_of(responder) != first
    assert not Path(f"/proc/{first}").exists() or " Z " in Path(f"/proc/{first}/stat").read_text()


def test_a_missing_namespace_and_a_taken_port_are_named(wires: None, responder: Responder) -> None:
    kernel.remove_namespace(namespace_of("blue", "1"))
    with kernel.in_netns(namespace_of("red", "1")):
        taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        taken.bind(("10.0.0.3", PORT))
    with contextlib.closing(taken):
        _changed, problems = start(responder)
    # The wire of blue/2 goes with its other end, sooner or later.
    assert [line for line in problems if not line.startswith("blue/2: ")] == [
        f"blue/1: there is no network namespace {namespace_of('blue', '1')}",
        f"red/1: 10.0.0.3 port {PORT}: Address already in use",
    ]
    _host, problems = ask(timeout=1)
    assert problems == [f"blue/1: there is no network namespace {namespace_of('blue', '1')}"]
    assert namespace_of("blue", "1") not in kernel.namespaces()


def test_responder_is_detached_from_its_starter(wires: None, responder: Responder) -> None:
    program = (
        "import sys, os; sys.path[:0] = sys.argv[2:]\n"
        "from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.processes import Responder\n"
        "from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.listening import Listener\n"
        f"wanted = [Listener('red/1', '{namespace_of('red', '1')}', 'red_net', '10.0.0.3')]\n"
        f"print(Responder(sys.argv[1]).start(wanted, {PORT}, 60, write=True))\n"
    )
    command = [sys.executable, "-c", program, responder.directory, *sys.path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.stdout, done.stderr) == ("(True, [])\n", "")
    process = process_of(responder)
    open_files = {os.readlink(path) for path in Path(f"/proc/{process}/fd").iterdir()}
    assert {name.partition(":")[0] for name in open_files} <= {"/dev/null", "socket", "anon_inode"}
    assert os.getsid(process) != os.getsid(0)
    assert responder.stop(write=True) == (True, [], [])


def test_responder_ends_after_its_lifetime(wires: None, responder: Responder) -> None:
    start(responder, lifetime=0.2)
    deadline = time.monotonic() + 600
    while responder.stop(write=False)[0]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_reused_process_id_is_not_killed(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        responder = Responder(str(tmp_path))
        state = {"pid": other.pid, "began": "1", "fingerprint": "", "problems": []}
        Path(responder.state_file).write_text(json.dumps(state))
        assert responder.stop(write=True)[:2] == (False, [])
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize(("answerer", "by"), [("10.0.0.4", "red/2"), ("10.0.0.9", None)])
def test_an_answer_counts_from_the_address_that_was_asked(wires, answerer, by) -> None:
    """As for any application: NAT on the way back is no answer."""
    place = namespace_of("red", "2")
    kernel.change_addresses(place, "wire", {"10.0.0.9/24"}, set())
    with kernel.in_netns(place):
        asked, answering = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _number in range(2))
    with asked, answering:
        asked.bind(("10.0.0.4", PORT))
        answering.bind((answerer, PORT + 1))

        def respond() -> None:
            data, sender = asked.recvfrom(2048)
            answering.sendto(answer(read_question(data)["ask"], "red/2", "red_net", sender[0]), sender)

        thread = threading.Thread(target=respond)
        thread.start()
        host, _problems = ask(timeout=5 if by else 1)
        thread.join()
    assert host["seen"]["red/1", "red/2", "red_net", "10.0.0.4"]["answered_by"] == by


def test_only_well_formed_questions_are_answered() -> None:
    assert read_question(question("t", "red/1")) == {"ask": "t", "source": "red/1"}
    for data in (b"", b"\xff", b"[]", b"[" * 1000, b'{"ask": 1, "source": "a"}', answer("t", "w", "n")):
        assert read_question(data) is None


def test_listeners_are_the_local_addresses_without_prefix_length() -> None:
    assert listeners(PLAN, "elsewhere") == []
    assert listeners(PLAN, "here")[0] == Listener("red/1", namespace_of("red", "1"), "red_net", "10.0.0.3")
