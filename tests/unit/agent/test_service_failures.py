# SPDX-License-Identifier: Apache-2.0
"""Parts of a host that fail: the service reports them and applies the others."""

from __future__ import annotations

import contextlib

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import node_gateway
from ansible_collections.heddle.ovn.plugins.module_utils.agent.service import convergence, service
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome

# What damaged objects do to a part, and the beginning of the failure's text.
FAILING = {
    "text": (lambda: b"caf\xe9".decode(), "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9"),
    "field": (lambda: {}["name"], "KeyError: 'name'"),
    "type": (lambda: "eth0" + 1, "TypeError: can only concatenate"),
    "object": (lambda: None.name, "AttributeError: 'NoneType' object has no attribute 'name'"),
}


@pytest.mark.parametrize(("failing", "beginning"), FAILING.values(), ids=FAILING)
def test_an_object_that_cannot_be_read_is_a_failure_of_its_part(monkeypatch, failing, beginning):
    monkeypatch.setattr(service, "only_writer", lambda **_named: contextlib.nullcontext())
    monkeypatch.setattr(service, "read_host", dict)
    monkeypatch.setattr(service, "parts", lambda _host, **_named: {"gateway": failing, "workloads": Outcome})
    failures, notes = service.bring(("gateway", "workloads"))
    assert (failures.keys(), notes) == ({"gateway"}, {"workloads": ()})
    text = failures["gateway"]
    assert text.startswith(beginning)
    assert __file__ in text


def test_a_damaged_digest_of_the_applied_plan_is_another_one(tmp_path, monkeypatch):
    """It is read between events, where no part reports it."""
    plan, applied = tmp_path / "plan.json", tmp_path / "applied"
    plan.write_text("{}")
    applied.write_bytes(b"\xff\xfe")
    monkeypatch.setattr(convergence, "read_plan_file", lambda _path: {"digest": "0123"})
    monkeypatch.setattr(node_gateway, "APPLIED_FILE", str(applied))
    assert not convergence.Converged(str(plan))()
    applied.write_text("0123")
    assert convergence.Converged(str(plan))()
