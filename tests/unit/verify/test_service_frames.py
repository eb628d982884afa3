# SPDX-License-Identifier: Apache-2.0
"""Questions of an external host to services through a node, with real packets between two network namespaces."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_expectations import (
    FROM_EXTERNAL_TO_SERVICE,
    ExternalFlow,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.exchange import Exchange, questions
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.listening import Place

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

EXTERNAL, NODE = f"sf{os.getpid()}e", f"sf{os.getpid()}n"
OWN = {4: "192.0.2.200", 6: "2001:db8::200"}
SERVICE = {4: "10.96.0.10", 6: "fd00:10:96::a"}
# Served in the same way in every test, so that an answer shows that the ways are open.
CONTROL = {4: "10.96.0.99", 6: "fd00:10:96::99"}
LENGTH = {4: 32, 6: 128}
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
PORTS = (("UDP", 53), ("TCP", 443))


@pytest.fixture
def mac() -> Iterator[str]:
    """An external host and a node on one wire; returns the node's MAC."""
    from pyroute2 import IPRoute

    try:
        for name in (EXTERNAL, NODE):
            kernel.create_namespace(name, "")
        with kernel.in_netns(EXTERNAL), IPRoute() as route:
            route.link("add", ifname="wire", kind="veth", peer={"ifname": "wire", "net_ns_fd": NODE})
        ends = {EXTERNAL: ("192.0.2.200/24", "2001:db8::200/64"), NODE: ("192.0.2.11/24", "2001:db8::11/64")}
        for name, addresses in ends.items():
            kernel.change_link(name, "wire", state="up")
            kernel.change_link(name, "lo", state="up")
            kernel.change_addresses(name, "wire", set(addresses), set())
        kernel.change_addresses(NODE, "lo", {f"{CONTROL[number]}/{LENGTH[number]}" for number in (4, 6)}, set())
        yield kernel.read_links(NODE)["wire"]["mac"]
    finally:
        for name in kernel.namespaces():
            if name in (EXTERNAL, NODE):
                kernel.remove_namespace(name)


@contextlib.contextmanager
def served(listening: tuple[str, ...] = ("UDP", "TCP")) -> Iterator[None]:
    """Answer in the node's namespace on all its addresses."""
    opened = []
    with kernel.in_netns(NODE):
        for protocol, port in PORTS:
            for number in (4, 6) if protocol in listening else ():
                kind = socket.SOCK_DGRAM if protocol == "UDP" else socket.SOCK_STREAM
                one = socket.socket(FAMILIES[number], kind)
                if number == 6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                one.bind(("", port))
                opened.append(one)
    for one in opened:
        if one.type == socket.SOCK_STREAM:
            one.listen()
        else:
            threading.Thread(target=_echo, args=(one,), daemon=True).start()
    try:
        yield
    finally:
        for one in opened:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def _echo(opened: socket.socket) -> None:
    """Answer as a DNS server does: from the address that was asked (IP_PKTINFO, ip(7))."""
    with contextlib.suppress(OSError):
        level, option = (0, 8) if opened.family == socket.AF_INET else (41, 49)
        opened.setsockopt(level, option, 1)
        while True:
            data, ancillary, _flags, sender = opened.recvmsg(512, 256)
            if not data:
                return
            given = [(one[0], 50 if one[0] == 41 else one[1], _from(one)) for one in ancillary]
            opened.sendmsg([data], given, 0, sender)


def _from(ancillary: tuple) -> bytes:
    level, _kind, data = ancillary
    return data if level == 41 else b"\0" * 4 + data[8:12] + b"\0" * 4


def rows(mac: str, addresses: dict[int, str], target: str) -> list[ExternalFlow]:
    return [
        ExternalFlow(
            FROM_EXTERNAL_TO_SERVICE, "external", "external", f"{target} {protocol}", "", "", number, addresses[number],
            False, "closed", seen_as=OWN[number], mac=mac, protocol=protocol, port=port, through="node1",
        )
        for number in (4, 6) for protocol, port in PORTS
    ]  # fmt: skip


def answered(asked: list[ExternalFlow], enough: set[int]) -> set[int]:
    """Ask until `enough` were answered, each once more when nothing is received; return all that were."""
    with kernel.in_netns(EXTERNAL), Exchange(questions(asked), {"external": Place()}, 7654) as exchange:
        assert (exchange.problems, exchange.unsent) == ([], set())
        deadline = time.monotonic() + 60
        found: set[int] = set()
        while not enough <= found:
            assert time.monotonic() < deadline, f"{enough - found} were not answered"
            # The controls come last: who answers them has had time for all others.
            for number in range(len(asked)):
                exchange.ask(number)
            exchange.receive(time.monotonic() + 0.5)
            found = {number for number, one in enumerate(exchange.asked) if one.answers}
        return found


def test_a_node_that_forwards_to_services_is_found_out_in_both_families_and_protocols(mac: str) -> None:
    kernel.change_addresses(NODE, "lo", {f"{SERVICE[number]}/{LENGTH[number]}" for number in (4, 6)}, set())
    asked = rows(mac, SERVICE, "service")
    with served():
        assert answered(asked, set(range(4))) == set(range(4))


def test_a_refused_connection_is_an_answer_too(mac: str) -> None:
    kernel.change_addresses(NODE, "lo", {f"{SERVICE[number]}/{LENGTH[number]}" for number in (4, 6)}, set())
    asked = [one for one in rows(mac, SERVICE, "service") if one.protocol == "TCP"]
    assert answered(asked, {0, 1}) == {0, 1}


def test_a_node_that_drops_them_is_silent_while_controls_are_answered(mac: str) -> None:
    asked = [*rows(mac, SERVICE, "service"), *rows(mac, CONTROL, "control")]
    with served():
        assert answered(asked, {4, 5, 6, 7}) == {4, 5, 6, 7}


def test_an_address_that_the_host_does_not_have_is_a_problem_of_that_question(mac: str) -> None:
    asked = rows(mac, SERVICE, "service")
    with kernel.in_netns(NODE), Exchange(questions(asked), {"external": Place()}, 7654) as exchange:
        assert exchange.unsent == {0, 1, 2, 3}
        assert exchange.problems == [
            f"external: no network interface of this host has {address}" for address in OWN.values()
        ]
