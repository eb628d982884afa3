# SPDX-License-Identifier: Apache-2.0
"""Questions to a DNS server on the loopback interface."""

from __future__ import annotations

import asyncio

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.dns_daemon import lookup as module
from ansible_collections.heddle.ovn.plugins.module_utils.dns_daemon.lookup import Answer, LookupFailed, lookup
from tests.dns_server import Server


@pytest.fixture
def server(tmp_path):
    made = Server()
    made.resolvers = tmp_path / "resolv.conf"
    # The search domain of a host is none of a firewall's.
    made.resolvers.write_text("search example.org\nnameserver 127.0.0.1\n")
    yield made
    made.close()


def asked(server: Server, name: str, version: int = 4) -> Answer:
    return asyncio.run(lookup(name, version, str(server.resolvers), server.port))


def test_addresses_of_each_family_with_their_ttl(server):
    server.records["www.example.com"] = [("A", 300, "192.0.2.1"), ("A", 300, "192.0.2.2"), ("AAAA", 60, "2001:db8::1")]
    assert asked(server, "www.example.com") == Answer(frozenset({"192.0.2.1", "192.0.2.2"}), 300)
    assert asked(server, "www.example.com", 6) == Answer(frozenset({"2001:db8::1"}), 60)


def test_an_alias_is_followed_and_its_ttl_counts(server):
    server.records["www.example.com"] = [("CNAME", 20, "host.example.net.")]
    server.records["host.example.net"] = [("A", 300, "192.0.2.7")]
    assert asked(server, "www.example.com") == Answer(frozenset({"192.0.2.7"}), 20)


def test_a_name_without_addresses_and_one_that_does_not_exist(server):
    server.records["www.example.com"] = [("A", 300, "192.0.2.1")]
    server.records["short.example.org"] = [("A", 300, "192.0.2.9")]
    assert asked(server, "www.example.com", 6).addresses == frozenset()
    assert asked(server, "nothing.example.com").addresses == frozenset()
    assert asked(server, "short").addresses == frozenset()


def test_a_server_that_fails_or_is_silent_is_a_failure_with_its_reason(server, monkeypatch):
    server.records.update({"broken.example.com": None, "late.example.com": "silent"})
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    with pytest.raises(LookupFailed, match="SERVFAIL"):
        asked(server, "broken.example.com")
    with pytest.raises(LookupFailed, match="lifetime expired"):
        asked(server, "late.example.com")


def test_a_file_of_resolvers_with_a_mistake_is_a_failure_with_its_reason(server):
    server.resolvers.write_text("nameserver no-address\n")
    with pytest.raises(LookupFailed, match="no-address"):
        asked(server, "www.example.com")
    server.resolvers.write_bytes(b"nameserver \xff\n")
    with pytest.raises(LookupFailed, match="utf-8"):
        asked(server, "www.example.com")
