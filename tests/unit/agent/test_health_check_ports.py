# SPDX-License-Identifier: Apache-2.0
"""Health check ports of Services: what nodes answer, on real sockets of the loopback interface."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import resource
import select
import socket
import threading

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.health import health_check_ports
from ansible_collections.heddle.ovn.plugins.module_utils.agent.health.health_check_ports import HealthCheckPorts
from ansible_collections.heddle.ovn.plugins.module_utils.render.services.health_checks import render_health_checks
from ansible_collections.heddle.ovn.plugins.module_utils.types.health_check import HealthCheck
from lab.ports import free
from tests.pipeline import layer2, namespace, plan_of, with_gateways, with_nics, workload

POOL = """---
apiVersion: heddle.dev/v1
kind: LoadBalancerPool
metadata: {name: pool}
spec: {subnets: [192.0.2.64/28, "2001:db8::40/124"]}
"""
SERVICE = """---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: red}
spec: {type: LoadBalancer, externalTrafficPolicy: POLICY, selector: {app: web}, ipFamilyPolicy: PreferDualStack,
       ports: [{name: http, port: 80, targetPort: 8080}, {name: alt, port: 81, targetPort: 8081}]}
"""


def checks(policy: str, node: str, hosts: dict | None = None) -> dict:
    text = namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:1::/64") + POOL
    for number, node_name in enumerate(("node1", "node1", "node2")):
        text += workload("red", f"w{number}", node_name).replace("namespace: red", "namespace: red, labels: {app: web}")
    plan = plan_of(text + SERVICE.replace("POLICY", policy), hosts=hosts or with_gateways("shared"))
    return render_health_checks(plan, node)


def test_each_node_answers_with_its_own_endpoints() -> None:
    for node, count in (("node1", 2), ("node2", 1), ("node3", 0)):
        found = checks("Local", node)
        assert len({port for _address, port in found}) == 1
        assert {*found.values()} == {HealthCheck("red", "web", count)}
    assert checks("Cluster", "node1") == {}


def test_all_addresses_of_a_node_answer() -> None:
    hosts = with_nics(with_gateways("shared"))
    hosts["node1"]["gateway"]["addresses"].append("198.51.100.11/24")
    by_provider = {"192.0.2.11", "198.51.100.11", "2001:db8::b"}
    own = by_provider | {"203.0.113.11", "2001:db8:3::b", "10.244.0.2", "fd00:10:244::2"}
    assert {address for address, _port in checks("Local", "node1", hosts)} >= own


@pytest.mark.parametrize("state", ["ready: false, serving: true, terminating: true", "ready: false"])
def test_endpoints_that_are_not_ready_do_not_count(state) -> None:
    service = SERVICE.replace("POLICY", "Local").replace("selector: {app: web}", "publishNotReadyAddresses: true")
    text = namespace("red") + layer2("red", "net", "10.0.0.0/24", "fd00:1::/64") + POOL + service
    text += (
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
        "metadata: {name: own, namespace: red, labels: {kubernetes.io/service-name: web}}\n"
        "addressType: IPv4\nports: [{name: http, port: 8080}]\n"
        "endpoints: [{addresses: [10.0.0.9], nodeName: node1, conditions: {STATE}}]\n"
    )
    for conditions, count in ((state, 0), ("ready: true", 1)):
        plan = plan_of(text.replace("STATE", conditions), hosts=with_gateways("shared"))
        [port] = [one for one in plan["services"]["red_net"]["red/web"]["ports"] if one["port"] == 80]
        assert [one["address"] for one in port["endpoints"]] == ["10.0.0.9"]
        assert {*render_health_checks(plan, "node1").values()} == {HealthCheck("red", "web", count)}


class Served:
    """The ports, served by a thread as the service does between events."""

    def __init__(self, tmp_path) -> None:
        self.wanted: dict = {}
        self.said: list[str] = []
        self.file, self.turn = tmp_path / "plan.json", 0
        self.ports = HealthCheckPorts(self.said.append, lambda: self.wanted, str(self.file))
        self.renew()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._serve)

    def renew(self) -> None:
        new = self.file.with_suffix(".new")
        new.write_text("{}")
        os.replace(new, self.file)
        # Another moment, also where two files get one inode number in turn.
        self.turn += 1
        os.utime(self.file, ns=(0, self.turn))

    def _serve(self) -> None:
        while not self.over.is_set():
            self.ports.follow()
            self.ports.ready(select.select(self.ports.sources, [], [], 0.01)[0])


@pytest.fixture
def served(tmp_path):
    made = Served(tmp_path)
    yield made
    made.over.set()
    if made.thread.ident:
        made.thread.join()
    made.ports.close()


def asked(port: int, method: str = "GET", address: str = "127.0.0.1") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, port, timeout=60)
    connection.request(method, "/healthz")
    response = connection.getresponse()
    return response.status, response.read()


def test_answers_are_those_of_service_proxies(served) -> None:
    here, nowhere = free(), free()
    served.wanted = {
        ("127.0.0.1", here): HealthCheck("red", "web", 2), ("::1", here): HealthCheck("red", "web", 2),
        ("127.0.0.1", nowhere): HealthCheck("red", "other", 0),
    }  # fmt: skip
    served.ports.follow()
    served.thread.start()
    for address in ("127.0.0.1", "::1"):
        status, body = asked(here, address=address)
        assert (status, json.loads(body)) == (
            200,
            {"service": {"namespace": "red", "name": "web"}, "localEndpoints": 2},
        )
    status, body = asked(nowhere)
    assert (status, json.loads(body)["localEndpoints"]) == (503, 0)
    assert asked(here, "HEAD") == (200, b"")
    # A request in two parts, and one that never ends.
    with socket.create_connection(("127.0.0.1", here), 60) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost:")
        client.sendall(b" x\r\n\r\n")
        assert client.makefile("rb").read().startswith(b"HTTP/1.1 200 OK\r\n")
    with socket.create_connection(("127.0.0.1", here), 60) as client:
        client.sendall(b"x" * 9000)
        # The end of what was sent may be reset, since it was not read.
        with contextlib.suppress(ConnectionError):
            assert client.recv(100) == b""
    assert asked(here)[0] == 200


@pytest.fixture
def few_descriptors():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 3, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_without_descriptors_ports_wait_for_the_next_attempt(served, few_descriptors, monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr(health_check_ports.time, "monotonic", lambda: now[0])
    served.wanted = {(f"127.0.0.{number}", free()): HealthCheck("red", "web", 1) for number in range(1, 21)}
    few_descriptors()
    served.ports.follow()
    opened = len(served.ports.sources)
    assert 0 < opened < 20
    assert len(served.said) == 20 - opened
    assert "Too many open files" in served.said[0]
    now[0] += 10
    served.ports.follow()
    assert len(served.said) == 20 - opened


def test_ports_follow_the_plan(served) -> None:
    first, second = free(), free()
    served.wanted = {("127.0.0.1", first): HealthCheck("red", "web", 1)}
    served.ports.follow()
    assert [one.getsockname()[1] for one in served.ports.sources] == [first]
    served.wanted = {("127.0.0.1", second): HealthCheck("red", "web", 1)}
    # Nothing is read before the plan's file is another one.
    served.ports.follow()
    assert [one.getsockname()[1] for one in served.ports.sources] == [first]
    served.renew()
    served.ports.follow()
    assert [one.getsockname()[1] for one in served.ports.sources] == [second]
    served.wanted = {}
    served.renew()
    served.ports.follow()
    assert served.ports.sources == []


def test_a_port_that_is_taken_is_reported_once_and_tried_again(served, monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr(health_check_ports.time, "monotonic", lambda: now[0])
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        served.wanted = {("127.0.0.1", port): HealthCheck("red", "web", 1)}
        for _attempt in range(3):
            served.ports.follow()
            now[0] += 10
        (line,) = served.said
        assert f"health check port {port} of red/web at 127.0.0.1: " in line
    served.ports.follow()
    assert len(served.ports.sources) == 1
    # A connection that sends nothing is ended in time.
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        served.ports.ready(served.ports.sources)
        assert len(served.ports.sources) == 2
        now[0] += 10
        served.ports.follow()
        assert len(served.ports.sources) == 1
        assert client.recv(1) == b""
