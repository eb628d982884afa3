# SPDX-License-Identifier: Apache-2.0
"""Which kernels can make the tunnels of an Egress: named, and the rest of the plan is applied."""

from __future__ import annotations

import os
import re

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import egress_nat
from ansible_collections.heddle.ovn.plugins.module_utils.common.change import Outcome
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.protocol import fou
from tests.live.egress.manifests import CLIENT, plan

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


def test_kernel_without_fou_is_named_and_nothing_else_is_kept_from_the_host(monkeypatch, tmp_path):
    file = tmp_path / "lacking"
    monkeypatch.setattr(fou, "lacking", lambda: ["ipip with FoU", "fou (IPv4)"])
    assert egress_nat.known_lacking(file) == []
    for write in (False, True):
        (note,) = egress_nat.lacking_tunnels(plan(), "node1", write=write, file=file).notes
        assert re.search(rf"lacks ipip with FoU, fou \(IPv4\), which .*{CLIENT}.*CONFIG_NET_FOU", note)
        assert file.exists() == write
    # The host reports it from now on, as long as its kernel lacks it.
    assert egress_nat.known_lacking(file) == ["ipip with FoU", "fou (IPv4)"]
    monkeypatch.setattr(fou, "lacking", list)
    assert egress_nat.known_lacking(file) == []
    assert egress_nat.lacking_tunnels(plan(), "node1", write=True, file=file) == Outcome()
    assert not file.exists()


def test_node_without_router_or_client_needs_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(fou, "lacking", lambda: pytest.fail("asked"))
    assert egress_nat.lacking_tunnels(plan(), "node3", write=True, file=tmp_path / "lacking") == Outcome()
    assert egress_nat.known_lacking(tmp_path / "lacking") == []


def test_what_is_lacking_is_tried_without_trace():
    before = os.readlink("/proc/thread-self/ns/net")
    assert set(fou.lacking()) <= {"dummy", "ipip with FoU", "ip6tnl with FoU", "fou (IPv4)", "fou (IPv6)"}
    assert os.readlink("/proc/thread-self/ns/net") == before
