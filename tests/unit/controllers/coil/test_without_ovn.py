# SPDX-License-Identifier: Apache-2.0
"""A fleet whose hosts have no OVN: address pools alone, and an error for whatever needs OVN."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.plan_format import has_ovn
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from tests.pipeline import layer2, namespace, stored, workload
from tests.unit.controllers.coil.test_coil_pools import BASE, addresses, on, pool, refused

WITHOUT = {"ovn": False}


def test_the_plan_has_no_network_and_all_workloads_are_on_pools():
    text = BASE + on(1) + pool("default", "{ipv4: 10.9.0.0/24}")
    text += namespace("b", primary=False) + workload("b", "x", "node2")
    snapshot = stored(text, settings=WITHOUT)
    plan = build_plan(snapshot)
    assert not has_ovn(plan)
    assert plan["networks"] == plan["workloads"] == {}
    # A namespace without the annotation has the pool `default`.
    assert addresses(snapshot) == {"w0": ["10.2.0.0", "fd02::200"], "x": ["10.9.0.0"]}
    assert stored(text, snapshot, settings=WITHOUT) == snapshot
    assert has_ovn(build_plan(stored(text)))


REASON = "needs OVN, and hosts have none (heddle_settings: ovn: false)"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (namespace("red") + layer2("red", "net", "10.0.0.0/24"), [
            f"metadata.labels: k8s.ovn.org/primary-user-defined-network {REASON}", f"kind: UserDefinedNetwork {REASON}",
        ]),
        (workload("a", "v", "node1").replace("node: node1", "node: node1, kind: vm"), [f"spec.kind: vm {REASON}"]),
        ("---\napiVersion: k8s.ovn.org/v1\nkind: EgressIP\nmetadata: {name: out}\nspec: {egressIPs: [198.18.2.99], "
         "namespaceSelector: {}}\n", [f"kind: EgressIP {REASON}"]),
    ],
)  # fmt: skip
def test_what_needs_ovn_is_refused(text, lines):
    assert [line for line in refused(BASE + text, settings=WITHOUT) if "OVN" in line] == lines


def test_installed_hosts_keep_ovn_and_others_may_get_it():
    known = stored(BASE + on(1))
    assert refused(BASE + on(1), known, settings=WITHOUT) == ["ovn: cannot be changed to false: hosts have OVN already"]
    without = stored(BASE + on(1), settings=WITHOUT)
    assert addresses(stored(BASE + on(1), without)) == addresses(without)
