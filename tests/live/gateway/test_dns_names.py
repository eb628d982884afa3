# SPDX-License-Identifier: Apache-2.0
"""Rules of EgressFirewalls with a DNS name: a DNS server, the daemon, OVN, and packets."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.dns_daemon import resolved_name
from ansible_collections.heddle.ovn.plugins.module_utils.dns_daemon.daemon import Daemon
from ansible_collections.heddle.ovn.plugins.module_utils.dns_daemon.lookup import lookup
from tests.dns_server import Server
from tests.live.conftest import Server as Database
from tests.live.conftest import stop, wait_for
from tests.live.gateway.external_host import EXTERNAL, MANIFESTS, request_of
from tests.live.gateway.packets import UDP
from tests.live.gateway.test_egress_rules import document, sent_out, to

NAME, PORT = "www.example.com", 7
RESTRICTED = ("flat", "deep", "plain")


@pytest.fixture
def dns(tmp_path, monkeypatch):
    """A DNS server, and resolvers that use it, which are asked often."""
    for name, seconds in (("GRACE_SECONDS", 1.0), ("SHORTEST_SECONDS", 0.2), ("LONGEST_EMPTY_SECONDS", 0.2)):
        monkeypatch.setattr(resolved_name, name, seconds)
    server = Server()
    resolvers = tmp_path / "resolv.conf"
    resolvers.write_text("nameserver 127.0.0.1\n")
    server.ask = lambda name, version: lookup(name, version, str(resolvers), server.port)
    yield server
    server.close()


class Resolving:
    """The daemon in a thread of its own, as on a host whose plan has names until `end`."""

    def __init__(self, zone, dns, report) -> None:
        self.report, self.wanted = report, True
        self.lines: list[str] = []
        daemon = Daemon(lambda: self.wanted, zone.northbound.remote, str(report), self.lines.append, dns.ask)
        self._thread = threading.Thread(target=lambda: asyncio.run(daemon.run()))
        self._thread.start()

    def found(self) -> dict:
        return json.loads(self.report.read_text()).get(NAME, {}) if self.report.exists() else {}

    def end(self) -> None:
        self.wanted = False
        self._thread.join()


@pytest.fixture
def resolving(host, dns, tmp_path):
    rules = [{"type": "Allow", "to": {"dnsName": f"{NAME.upper()}."}}, to("Deny", "0.0.0.0/0"), to("Deny", "::/0")]
    machine, zone = host(MANIFESTS + "".join(document("EgressFirewall", name, rules) for name in RESTRICTED))
    daemon = Resolving(zone, dns, tmp_path / "dns-names.json")
    yield machine, zone, daemon
    daemon.end()
    assert not daemon.report.exists()


def leave(machine, zone, version: int, port: int) -> None:
    """Let the workloads send to a port of the external host."""
    for name in RESTRICTED:
        machine.receive(f"if-{name}", replace(request_of(zone, name, UDP, version), target_port=port).encode())


def answers(addresses: dict[int, str], ttl: int = 1) -> list:
    return [("A" if version == 4 else "AAAA", ttl, address) for version, address in addresses.items()]


def filled(zone) -> list:
    """Return the addresses in each address set of a name, which is empty while none is known."""
    rows = zone.northbound.rows("Address_Set", "addresses", "external_ids")
    return [row["addresses"] for row in rows if "EgressFirewallDNS" in str(row["external_ids"])]


def test_packets_leave_to_the_addresses_that_a_name_has_at_present(resolving, dns):
    machine, zone, daemon = resolving
    # Nothing is known yet: what no rule before the last ones matches is denied.
    for version in EXTERNAL:
        leave(machine, zone, version, PORT)

    dns.records[NAME] = answers(EXTERNAL)
    wait_for(lambda: len(daemon.found().get("addresses", ())) == 2, "the addresses")
    for version in EXTERNAL:

        def arrived(version=version) -> bool:
            # The flows for an address come a little later than the address.
            leave(machine, zone, version, PORT + 1)
            return {name for name, _port in sent_out(machine, version)} == {*RESTRICTED}

        machine.exchange(arrived, "what may leave")
        assert {port for _name, port in sent_out(machine, version)} == {PORT + 1}

    # Another process goes on with what the first had found, also while no resolver answers.
    daemon.end()
    dns.records[NAME] = None
    daemon.__init__(zone, dns, daemon.report)
    wait_for(lambda: "SERVFAIL" in daemon.found().get("problem", ""), "the failure")
    assert filled(zone)
    assert all(filled(zone))

    dns.records[NAME] = answers({4: "198.18.77.1", 6: "2001:db8:77::1"})
    wait_for(lambda: daemon.found() == {"addresses": ["198.18.77.1", "2001:db8:77::1"], "problem": ""}, "the others")


def test_a_second_apply_changes_nothing_and_names_that_go_end(resolving, dns):
    _machine, zone, daemon = resolving
    dns.records[NAME] = answers(EXTERNAL, ttl=300)
    wait_for(lambda: len(daemon.found().get("addresses", ())) == 2, "the addresses")
    wait_for(lambda: len(filled(zone)) == 6 and all(filled(zone)), "the address sets")
    before = filled(zone)
    assert zone.bring(zone.plan, "node1").changes == ()
    assert filled(zone) == before
    zone.apply(MANIFESTS)
    wait_for(lambda: daemon.found() == {}, "no names")
    assert filled(zone) == []


def test_a_database_that_restarts_is_followed_again(serve, dns, tmp_path):
    """Packages of OVN restart it when they are upgraded."""
    northbound = serve("OVN_Northbound")
    ids = [["k8s.ovn.org/owner-type", "EgressFirewallDNS"], ["k8s.ovn.org/name", NAME], ["ip-family", "v4"]]
    row = {"name": "a1", "external_ids": ["map", ids]}
    northbound.transact({"op": "insert", "table": "Address_Set", "row": row})
    dns.records[NAME] = answers({4: "192.0.2.1"})
    zone = SimpleNamespace(northbound=northbound)
    daemon = Resolving(zone, dns, tmp_path / "dns-names.json")
    try:

        def holds(address: str) -> bool:
            return northbound.rows("Address_Set", "addresses")[0]["addresses"] == address

        wait_for(lambda: holds("192.0.2.1"), "the address")
        stop(northbound.process)
        dns.records[NAME] = answers({4: "192.0.2.2"})
        wait_for(lambda: any("trying again" in line for line in daemon.lines), "the end of the connection")
        northbound = Database(northbound.tools, northbound.folder, northbound.database, None)
        wait_for(lambda: holds("192.0.2.2"), "the other address")
        stop(northbound.process)
    finally:
        daemon.end()
