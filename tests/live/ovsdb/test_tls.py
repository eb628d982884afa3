# SPDX-License-Identifier: Apache-2.0
"""The client and a real server over TLS: both sides show certificates, and each refuses one of another authority."""

from __future__ import annotations

import re
import socket

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import Client, OvsdbError, Unreachable
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.remotes import Tls
from tests.live.tls import Authority, tls_server

DATABASE = "OVN_Northbound"


@pytest.fixture
def authority(folder) -> Authority:
    return Authority(folder, "authority")


@pytest.fixture
def remote(tools, folder, authority):
    """An ovsdb-server that takes TLS only; returns its remote."""
    with tls_server(tools, folder, tools.schema(DATABASE), authority.issue("server")) as listening:
        yield listening


def test_transactions_of_any_size_go_both_ways(remote, authority):
    text = "x" * 100_000
    inserts = [{"op": "insert", "table": "Logical_Switch", "row": {"name": f"{number}{text}"}} for number in range(50)]
    select = {"op": "select", "table": "Logical_Switch", "where": [], "columns": ["name"]}
    with Client(remote, tls=authority.issue("client")) as client:
        client.transact(DATABASE, inserts)
        for results in client.pipeline(DATABASE, [[select]] * 3):
            assert sorted(len(row["name"]) for row in results[0]["rows"])[0] > len(text)
            assert len(results[0]["rows"]) == 50


def test_a_server_of_another_authority_is_not_spoken_to(remote, authority, folder):
    other = Authority(folder, "other")
    with pytest.raises(Unreachable, match=r"cannot connect: .*(certificate|self-signed)"):
        Client(remote, tls=authority.issue("client", trusting=other))


def test_the_server_refuses_a_client_of_another_authority(remote, authority, folder):
    other = Authority(folder, "other").issue("client", trusting=authority)
    with pytest.raises(OvsdbError, match=r"lost|closed|cannot connect"), Client(remote, tls=other) as client:
        client.list_dbs()


@pytest.mark.parametrize("missing", ["private_key", "certificate", "ca_certificate"])
def test_a_missing_file_is_named(remote, authority, folder, missing):
    files = authority.issue("client")
    path = folder / "nothing.pem"
    with pytest.raises(Unreachable, match=f"{re.escape(str(path))}: No such file"):
        Client(remote, tls=Tls(**{**vars(files), missing: str(path)}))


def test_a_server_without_tls_is_an_error_and_not_used_in_plain_text(authority):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(Unreachable, match="cannot connect"):
            Client(f"ssl:127.0.0.1:{port}", timeout=0.2, tls=authority.issue("client"))
