# SPDX-License-Identifier: Apache-2.0
"""A virtual machine arrives on a host that has not had the DNS names of its EgressFirewall until now."""

from __future__ import annotations

import contextlib
import json
from types import SimpleNamespace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import arriving_names
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError
from ansible_collections.heddle.ovn.plugins.module_utils.common.files.daemon_report import only_daemon
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.workload.move import begin_move
from ansible_collections.heddle.ovn.plugins.module_utils.dns_daemon.address_sets import AddressSet
from ansible_collections.heddle.ovn.plugins.module_utils.operations import migration
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.pipeline import layer2, namespace, nodes, stored

DENIED, ALLOWED = "denied.example.com", "allowed.example.com"
MANIFESTS = (
    namespace("red")
    + layer2("red", "net", "10.0.0.0/24")
    + "---\napiVersion: heddle.dev/v1\nkind: Workload\nmetadata: {name: vm, namespace: red}\n"
    "spec: {node: node1, kind: vm}\n"
    "---\napiVersion: k8s.ovn.org/v1\nkind: EgressFirewall\nmetadata: {name: default, namespace: red}\n"
    f"spec: {{egress: [{{type: Deny, to: {{dnsName: {DENIED}}}}}, {{type: Allow, to: {{dnsName: {ALLOWED}}}}}]}}\n"
)
FOUND = {"addresses": ["192.0.2.1"], "problem": ""}
FAILED = {"addresses": [], "problem": "SERVFAIL"}


@pytest.fixture
def plan() -> dict:
    moving, _move = begin_move(stored(MANIFESTS, hosts=nodes("node1", "node2")), "red/vm", "node2")
    return build_plan(moving)


@pytest.fixture
def host(monkeypatch, tmp_path):
    """A host with the daemon: its report by name, the addresses that the sets have, and what was done in order."""
    report, done = tmp_path / "dns-names.json", []
    sets = {DENIED: ["192.0.2.1"], ALLOWED: ["192.0.2.1"]}

    def read(_client) -> list[AddressSet]:
        done.append("read")
        return [AddressSet(name, name, 4, frozenset(addresses)) for name, addresses in sets.items()]

    monkeypatch.setattr(arriving_names, "connected", lambda *_words, **_more: contextlib.nullcontext())
    monkeypatch.setattr(arriving_names, "read_address_sets", read)
    monkeypatch.setattr(arriving_names, "synchronise", lambda *_words, **_more: done.append("realised"))

    def wait(plan: dict, workload: str = "red/vm", **entries: dict) -> list[str]:
        report.write_text(json.dumps({DENIED: FOUND, ALLOWED: FOUND} | entries))
        done.clear()
        arriving_names.wait_for_names(plan, workload, 0.05, str(report))
        return done

    with only_daemon(str(report)):
        yield SimpleNamespace(wait=wait, sets=sets, report=report, done=done)


def test_it_may_come_when_ovn_has_the_addresses(plan, host):
    assert host.wait(plan) == ["read", "realised"]


def test_addresses_that_are_not_written_yet_are_waited_for(plan, host, monkeypatch):
    host.sets[DENIED] = []

    def late(_client):
        found = [AddressSet(name, name, 4, frozenset(addresses)) for name, addresses in host.sets.items()]
        host.sets[DENIED] = ["192.0.2.1"]
        host.done.append("read")
        return found

    monkeypatch.setattr(arriving_names, "read_address_sets", late)
    assert host.wait(plan) == ["read", "read", "realised"]


def test_it_does_not_come_while_a_name_was_not_asked_for(plan, host):
    host.report.write_text(json.dumps({ALLOWED: FOUND}))
    with pytest.raises(UserError, match=rf"has not asked for {DENIED} within 0\.05 s"):
        arriving_names.wait_for_names(plan, "red/vm", 0.05, str(host.report))
    assert "realised" not in host.done


def test_it_does_not_come_while_resolvers_do_not_answer_for_a_rule_that_denies(plan, host):
    host.sets[DENIED] = []
    with pytest.raises(UserError, match=rf"red/default denies what is sent to {DENIED}, .*: SERVFAIL; let the"):
        host.wait(plan, **{DENIED: FAILED})
    assert "realised" not in host.done


def test_a_rule_that_allows_what_no_resolver_knows_prevents_nothing(plan, host):
    host.sets[ALLOWED] = []
    assert host.wait(plan, **{ALLOWED: FAILED})[-1] == "realised"


def test_a_name_without_addresses_is_known(plan, host):
    host.sets[DENIED] = []
    assert host.wait(plan, **{DENIED: {"addresses": [], "problem": ""}})[-1] == "realised"


def test_nothing_is_waited_for_without_such_rules(plan, host):
    assert host.wait(plan, "red/other") == []


def test_what_a_daemon_that_has_ended_reported_does_not_count(plan, host, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(json.dumps({DENIED: FOUND, ALLOWED: FOUND}))
    with pytest.raises(UserError, match="has not asked for"):
        arriving_names.wait_for_names(plan, "red/vm", 0.05, str(other))


def test_qemu_does_not_listen_before_the_names_are_known(plan, monkeypatch):
    def unknown(found: dict, workload: str, _timeout: float) -> None:
        assert (found, workload) == (plan, "red/vm")
        raise UserError("unknown")

    monkeypatch.setattr(migration, "stored_plan", lambda _context: plan)
    monkeypatch.setattr(migration, "wait_for_names", unknown)
    monkeypatch.setattr(migration, "receive", lambda _params: pytest.fail("it listens"))
    with pytest.raises(UserError, match="unknown"):
        migration.bring_machine({"workload": "red/vm", "state": "receiving"}, write=True)
