# SPDX-License-Identifier: Apache-2.0
"""Services on the lab's hosts: names as programs of workloads resolve them, and health check ports."""

from __future__ import annotations

import json
import shlex

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from tests.lab.conftest import NODES, PATIENCE

SERVICE = "blue-a/public"
ASK = (
    "import http.client, sys; connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=300); "
    "connection.request('GET', '/'); answer = connection.getresponse(); print(answer.status, answer.read().decode())"
)


@pytest.fixture
def plan(lab):
    return lab.plan()


def test_health_check_ports_answer_by_local_endpoints(lab, plan):
    service = next(found[SERVICE] for found in plan["services"].values() if SERVICE in found)
    here = {one["node"] for port in service["ports"] for one in port["endpoints"]}
    assert set() < here < {*NODES}
    port = service["external"]["health_check_port"]
    for node in NODES:
        for address in plan["nodes"][node]["gateway"]["addresses"]:
            said = lab.ssh("external", "python3", "-c", shlex.quote(ASK), address.partition("/")[0], str(port))
            status, _space, body = said.partition(" ")
            assert status == ("200" if node in here else "503"), (node, said)
            answer = json.loads(body)
            assert "/".join((answer["service"]["namespace"], answer["service"]["name"])) == SERVICE
            assert bool(answer["localEndpoints"]) == (node in here)


def test_programs_of_workloads_resolve_names(lab, plan):
    """By the C library, with the search domains: a name of the network, and one that a server outside has."""
    for network, owner, wanted in (("red_red", "red/red1", "web"), ("default", "plain/plain1", "web.plain")):
        namespace, _slash, name = owner.partition("/")
        node, space = plan["workloads"][owner]["node"], f"{namespace}_{name}"
        service = next(key for key in plan["services"][network] if key.endswith("/web"))
        for address in plan["services"][network][service]["addresses"]:
            database = "ahostsv6" if ":" in address else "ahostsv4"
            # The C library gives up after some seconds.
            for _attempt in attempts(PATIENCE):
                said = lab.try_ssh(node, "ip", "netns", "exec", space, "getent", database, wanted)
                if said.returncode == 0:
                    break
            assert {line.split()[0] for line in said.stdout.splitlines()} == {address}
    # What another network has is not found here.
    node = plan["workloads"]["red/red1"]["node"]
    assert lab.try_ssh(node, "ip", "netns", "exec", "red_red1", "getent", "ahostsv4", "web.blue-a").returncode
