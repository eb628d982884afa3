# SPDX-License-Identifier: Apache-2.0
"""Which kernels can make the tunnels of an Egress: named before anything is written."""

from __future__ import annotations

import os

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import egress
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError
from ansible_collections.heddle.ovn.plugins.module_utils.netlink import fou
from tests.live.egress.manifests import CLIENT, plan

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


def test_kernel_without_fou_is_named(monkeypatch):
    monkeypatch.setattr(fou, "lacking", lambda: ["ipip with FoU", "fou (IPv4)"])
    with pytest.raises(UserError, match=rf"lacks ipip with FoU, fou \(IPv4\), which .*{CLIENT}.*CONFIG_NET_FOU"):
        egress.require_tunnels(plan(), "node1")


def test_node_without_router_or_client_needs_nothing(monkeypatch):
    monkeypatch.setattr(fou, "lacking", lambda: pytest.fail("asked"))
    egress.require_tunnels(plan(), "node3")


def test_what_is_lacking_is_tried_without_trace():
    before = os.readlink("/proc/thread-self/ns/net")
    assert set(fou.lacking()) <= {"dummy", "ipip with FoU", "ip6tnl with FoU", "fou (IPv4)", "fou (IPv6)"}
    assert os.readlink("/proc/thread-self/ns/net") == before
