# SPDX-License-Identifier: Apache-2.0
"""TCP ports of Services by all ways: what verify expects, and how it asks and answers, with sockets of this machine."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_expectations import external_flows
from ansible_collections.heddle.ovn.plugins.module_utils.verify.expectations.external_flow import (
    ENTRANCES,
    EXTERNAL_TO_ENTRANCE,
    HOST_TO_ENTRANCE,
    TO_CLUSTER_IP,
    WORKLOAD_TO_ENTRANCE,
    ExternalFlow,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing import responder
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.datagram import PORT
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.exchange import Exchange, Question
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.listening import (
    Listener,
    Place,
    listeners,
)
from ansible_collections.heddle.ovn.plugins.module_utils.verify.probing.processes import Responder
from lab.ports import free
from tests.pipeline import plan_of, with_gateways
from tests.unit.verify.test_entrance_expectations import BOTH, BY_PROVIDER, CLIENTS, EXTERNAL

LOCAL = ", externalTrafficPolicy: Local"


def tcp(port: int, more: str = "", extra: str = "") -> dict:
    """Return the plan of a Service with a TCP port that leads to `port` of its endpoints."""
    text = CLIENTS.replace("protocol: UDP, port: 7654", f"protocol: TCP, port: 80, targetPort: {port}")
    return plan_of(text.replace("MORE", more) + extra, hosts=with_gateways("shared"))


def entrances_of(plan: dict) -> list[ExternalFlow]:
    return [one for one in external_flows(plan, EXTERNAL) if one.kind in ENTRANCES and not one.way]


@pytest.mark.parametrize("port", [PORT, 8080])
def test_tcp_ports_are_asked_by_all_ways_wherever_they_lead(port):
    found = entrances_of(tcp(port))
    assert {(one.kind, one.port) for one in found} == {(kind, number) for kind in BY_PROVIDER for number in (80, 30000)}
    assert {(one.protocol, one.reach, one.refused, one.named, one.responders) for one in found} == {
        ("TCP", True, False, port == PORT, BOTH)
    }


def test_the_number_of_questions_grows_with_services_and_hosts_not_with_endpoints():
    counts = {kind: sum(one.kind == kind for one in entrances_of(tcp(8080))) for kind in BY_PROVIDER}
    # Node ports of three hosts and the load balancer, from one external host and from each host; two workloads ask.
    assert counts == {EXTERNAL_TO_ENTRANCE: 4, HOST_TO_ENTRANCE: 6, WORKLOAD_TO_ENTRANCE: 4}


@pytest.mark.parametrize(("port", "seen_as"), [(PORT, "192.0.2.20"), (8080, "")])
def test_the_source_that_the_policy_local_keeps_is_in_answers_of_verify_only(port, seen_as):
    found = [one for one in entrances_of(tcp(port, LOCAL)) if one.kind == EXTERNAL_TO_ENTRANCE]
    assert {one.seen_as for one in found if one.through == "node1"} == {seen_as}


def test_an_endpoint_that_is_no_workload_is_not_asked():
    unknown = (
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
        "metadata: {name: one, namespace: red, labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\n"
        "ports: [{protocol: TCP, port: 8080}]\nendpoints: [{addresses: [10.0.0.200]}]\n"
    )
    assert entrances_of(tcp(8080, extra=unknown)) == []


def test_endpoints_of_tcp_ports_answer_by_tcp_too_where_these_lead_to_verify():
    assert {one.protocol for one in listeners(tcp(8080), "node1")} == {"UDP"}
    found = [one for one in listeners(tcp(PORT), "node1") if one.protocol == "TCP"]
    assert [(one.workload, one.network) for one in found] == [("red/web1", "red_net")]


@pytest.fixture(params=[("127.0.0.1", 4), ("::1", 6)], ids=["IPv4", "IPv6"])
def answering(request, tmp_path: Path, monkeypatch) -> Iterator[tuple[str, int, int, Responder]]:
    """An address, family and port at which red/web1 answers by TCP, three connections at a time."""
    monkeypatch.setattr(responder, "MOST_CONNECTIONS", 3)
    address, version = request.param
    port = free()
    process = Responder(str(tmp_path))
    wanted = [Listener("red/web1", None, "red_net", address, protocol="TCP")]
    assert process.start(wanted, port, 3600, write=True) == (True, [])
    yield address, version, port, process
    process.stop(write=True)


def row(address: str, version: int, port: int, **more) -> ExternalFlow:
    fields = {"kind": HOST_TO_ENTRANCE, "reach": True, "responders": BOTH, "named": True, **more}
    return ExternalFlow(
        runner="node1", source="node1", target="red/web", workload="", network="", family=version, address=address,
        reason="", protocol="TCP", port=port, through="node1", **fields,
    )  # fmt: skip


def ask(one: ExternalFlow, seconds: float = 30) -> dict:
    """Return the answers to a question, waiting at most this long for each of its events."""
    with Exchange([Question(one, [0], one if one.reach else None)], {"node1": Place()}, PORT) as exchange:
        exchange.ask(0)
        # A connection that opens, and the answer over it.
        for _event in range(2 if one.named and one.reach else 1):
            exchange.receive(time.monotonic() + seconds)
        return {giver: asker for giver, (_took, asker) in exchange.asked[0].answers.items()}


def test_an_endpoint_answers_over_tcp_with_its_name_and_the_source_that_it_saw(answering):
    address, version, port, process = answering
    assert ask(row(address, version, port)) == {("red/web", ""): address}
    # Who answers is none of the endpoints.
    assert ask(row(address, version, port, responders=("red/web9",))) == {}
    # Where none must answer, an open connection is enough.
    assert ask(row(address, version, port, reach=False)) == {("red/web", ""): None}
    _stopped, ((source, *rest, seconds),), _problems = process.stop(write=True)
    assert (source, rest) == (f"node1 by red/web {address}", ["red/web1", "red_net", address])
    assert seconds >= 0


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 2000])
def test_anything_but_a_question_gets_no_answer(answering, data):
    address, _version, port, process = answering
    with socket.create_connection((address, port), timeout=600) as opened:
        opened.sendall(data)
        opened.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            assert opened.recv(100) == b""
    assert process.stop(write=True)[1:] == ([], [])


def test_connections_that_ask_nothing_do_not_keep_others_from_being_answered(answering):
    address, version, port, _process = answering
    with contextlib.ExitStack() as stack:
        for _number in range(20):
            stack.enter_context(socket.create_connection((address, port), timeout=600))
        assert ask(row(address, version, port)) == {("red/web", ""): address}


@pytest.mark.parametrize("kind", [*ENTRANCES, TO_CLUSTER_IP])
@pytest.mark.parametrize("reach", [True, False])
@pytest.mark.parametrize("listens", [True, False])
def test_a_connection_or_its_refusal_is_the_answer_where_a_port_leads_elsewhere(kind, reach, listens):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        asked = row("127.0.0.1", 4, server.getsockname()[1], kind=kind, reach=reach, named=False)
        # Hosts refuse by themselves what source ranges keep out.
        counts = listens or reach or kind == TO_CLUSTER_IP
        assert ask(asked, seconds=30 if counts else 0.2) == ({("red/web", ""): None} if counts else {})


def test_a_refusal_is_no_answer_of_an_endpoint_that_has_to_answer_by_name():
    """So a load balancer that has lost its endpoints is found."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        assert ask(row("127.0.0.1", 4, server.getsockname()[1]), seconds=0.2) == {}


def test_who_accepts_and_says_nothing_has_not_answered():
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert ask(row("127.0.0.1", 4, server.getsockname()[1]), seconds=0.2) == {}
