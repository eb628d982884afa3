# SPDX-License-Identifier: Apache-2.0
"""A virtual machine that is the only endpoint of a Service with the policy Local migrates; outside clients follow."""

from __future__ import annotations

import shutil

import pytest

from tests.lab.address_moves import expect_move, macs
from tests.lab.conftest import NODES
from tests.lab.remote_program import RemoteProgram
from tests.lab.test_coil import own
from tests.lab.test_virtual_machine import vm
from tests.lab.vm import DATA, OWN_SET, PORT, figures

__all__ = ["own", "vm"]
WEB = f"""---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: violet}}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  ipFamilyPolicy: PreferDualStack
  selector: {{app: vm}}
  ports: [{{port: 80, targetPort: {PORT}}}]
"""
pytestmark = pytest.mark.long


def test_the_addresses_of_a_load_balancer_follow_the_vm(lab, vm, own, tmp_path):
    """With the policy Local its host answers for them, by the same steps as in networks.yml."""
    manifests = shutil.copytree(DATA / "manifests", tmp_path / "manifests")
    (manifests / "web.yml").write_text(WEB)
    lab.play("networks.yml", *OWN_SET, manifests=manifests)
    try:
        (here,) = vm.runs_on()
        there = "node3" if here != "node3" else "node2"
        plan = lab.plan()
        listed = plan["services"]["violet_net"]["violet/web"]["external"]["load_balancer"]
        before = {one["address"]: one["node"] for one in listed}
        assert list(before.values()) == [here, here]
        owns = [f"{own['prefix']}.2.20", f"{own['prefix6']}:2::20"]
        watch = RemoteProgram(lab, "external", "address_watch.py", "to", "eth2", owns, {key: [80] for key in before})
        assert watch.line() == "ready"
        moved = figures(vm.move(there))
        assert (sorted(moved["moved_addresses"]), moved["waiting"]) == (sorted(before), [])
        expect_move(watch, macs(plan), dict.fromkeys(before, (here, there)))
        again = vm.move(there)
        assert set(again.changed.values()) == {0}, again.output[-4000:]
        applied = lab.play("networks.yml", *OWN_SET, manifests=manifests)
        assert {node: applied.changed[node] for node in NODES} == dict.fromkeys(NODES, 0), applied.output[-4000:]
    finally:
        lab.play("networks.yml", *OWN_SET, manifests=DATA / "manifests")
