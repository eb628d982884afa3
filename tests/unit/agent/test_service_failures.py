# SPDX-License-Identifier: Apache-2.0
"""Parts of a host that fail: the service reports them and applies the others."""

from __future__ import annotations

import contextlib

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.service import service
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome


def failing():
    return b"caf\xe9".decode()


@pytest.fixture
def host(monkeypatch):
    monkeypatch.setattr(service, "only_writer", lambda **_named: contextlib.nullcontext())
    monkeypatch.setattr(service, "read_host", dict)
    monkeypatch.setattr(service, "parts", lambda _host, **_named: {"gateway": failing, "workloads": Outcome})


def test_text_that_cannot_be_decoded_is_a_failure_of_its_part(host):
    failures, notes = service.bring(("gateway", "workloads"))
    assert (failures.keys(), notes) == ({"gateway"}, {"workloads": ()})
    text = failures["gateway"]
    assert text.startswith("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9")
    assert __file__ in text
