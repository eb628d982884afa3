# SPDX-License-Identifier: Apache-2.0
"""The client against a scripted peer and a real server: keep-alives, silence, broken peers, large messages."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import (
    Client,
    Conflict,
    Duplicate,
    OvsdbError,
    Unreachable,
)


@pytest.fixture
def scripted(folder):
    """A function that starts a peer: it runs `script(connection)` for one client and returns the remote."""
    listener = socket.socket(socket.AF_UNIX)
    path = folder / "peer.sock"
    listener.bind(str(path))
    listener.listen(1)
    threads = []

    def run(script) -> str:
        def serve():
            connection, _address = listener.accept()
            with connection:
                script(connection)

        threads.append(threading.Thread(target=serve, daemon=True))
        threads[-1].start()
        return f"unix:{path}"

    yield run
    for thread in threads:
        thread.join(10)
    listener.close()


def read(connection) -> dict:
    """One message; the peer in these tests never gets two at once."""
    return json.loads(connection.recv(1 << 16))


def test_keep_alive_is_answered_while_waiting(scripted):
    answers = []

    def script(connection):
        request = read(connection)
        connection.sendall(b'{"method":"echo","params":["x"],"id":"echo"}')
        answers.append(read(connection))
        connection.sendall(json.dumps({"id": request["id"], "result": ["db"], "error": None}).encode())

    with Client(scripted(script)) as client:
        assert client.list_dbs() == ["db"]
    assert answers == [{"id": "echo", "result": ["x"], "error": None}]


def test_silent_peer(scripted):
    release = threading.Event()
    with Client(scripted(lambda connection: release.wait(10)), timeout=0.05) as client:
        with pytest.raises(Unreachable, match="silent"):
            client.list_dbs()
        release.set()


def test_peer_that_closes(scripted):
    with Client(scripted(read)) as client, pytest.raises(Unreachable, match=r"closed|lost"):
        client.list_dbs()


def test_peer_of_another_kind(scripted):
    def script(connection):
        read(connection)
        connection.sendall(b"HTTP/1.1 400 {}")

    with Client(scripted(script)) as client, pytest.raises(Unreachable, match="not an OVSDB server"):
        client.list_dbs()


@pytest.mark.parametrize("remote", ["unix:", "tcp:host", "nonsense", "unix:/a,", "tcp:h:0"])
def test_remotes_that_are_not_supported(remote):
    with pytest.raises(ValueError, match="not supported"):
        Client(remote)


def test_connection_refused(folder):
    with pytest.raises(Unreachable, match="cannot connect"):
        Client(f"unix:{folder}/none.sock")


def test_databases_and_schema(northbound):
    with northbound.client() as client:
        assert "OVN_Northbound" in client.list_dbs()
        assert "Logical_Switch" in client.get_schema("OVN_Northbound")["tables"]
        with pytest.raises(OvsdbError, match="unknown database"):
            client.get_schema("Nonsense")


def test_kinds_of_errors(northbound):
    def attempt(*operations):
        with northbound.client() as client, pytest.raises(OvsdbError) as caught:
            client.transact("OVN_Northbound", list(operations))
        return type(caught.value)

    row = {"op": "insert", "table": "Copp", "uuid": "00000000-0000-4000-8000-000000000001", "row": {"name": "x"}}
    northbound.transact(row)
    wait = {"op": "wait", "timeout": 0, "table": "Copp", "where": [], "columns": ["name"], "until": "==", "rows": []}
    assert attempt(wait) is Conflict
    assert attempt(row) is Duplicate
    assert attempt({**row, "uuid": "00000000-0000-4000-8000-000000000002"}) is Duplicate
    wrong = {"op": "insert", "table": "ACL", "row": {"priority": -1}}
    assert attempt(wrong) is OvsdbError


def test_large_messages_with_awkward_text(northbound):
    text = 'outport == "x" && {"}\\ üñ日' * 4000
    inserts = [{"op": "insert", "table": "Logical_Switch", "row": {"name": f"{number}{text}"}} for number in range(100)]
    select = {"op": "select", "table": "Logical_Switch", "where": [], "columns": ["name"]}
    with northbound.client() as client:
        client.transact("OVN_Northbound", inserts)
        rows = client.transact("OVN_Northbound", [select])[0]["rows"]
        assert sorted(row["name"] for row in rows) == sorted(f"{number}{text}" for number in range(100))
        for results in client.pipeline("OVN_Northbound", [[select]] * 5):
            assert len(results[0]["rows"]) == 100
