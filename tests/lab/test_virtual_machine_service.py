# SPDX-License-Identifier: Apache-2.0
"""A virtual machine that is the only endpoint of a Service with the policy Local migrates; outside clients follow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.address_moves import expect_move, macs
from tests.lab.conftest import Lab
from tests.lab.disturbed_run import disturbed, kill_run
from tests.lab.remote_program import RemoteProgram
from tests.lab.test_coil import own
from tests.lab.test_virtual_machine import vm
from tests.lab.vm import DATA, MACHINE, OWN_SET, PORT, Machine, figures

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


@dataclass(frozen=True)
class Moving:
    """The VM with its Service, and the addresses of the external host."""

    lab: Lab
    vm: Machine
    manifests: Path
    external: list[str]

    def ends(self) -> tuple[str, str]:
        """The VM's host, and another one; both have its network in any case, so that its status does not change."""
        (here,) = self.vm.runs_on()
        return here, "node3" if here != "node3" else "node1"

    def holders(self) -> dict[str, str]:
        """The host of each address of the Service."""
        listed = self.lab.plan()["services"]["violet_net"]["violet/web"]["external"]["load_balancer"]
        return {one["address"]: one["node"] for one in listed}

    def watch(self) -> RemoteProgram:
        """Connect to all of them from the external host."""
        wanted = {address: [80] for address in self.holders()}
        watch = RemoteProgram(self.lab, "external", "address_watch.py", "to", "eth2", self.external, wanted)
        assert watch.line() == "ready"
        return watch

    def expect_nothing_left(self, there: str) -> None:
        """Neither the same migration nor the manifests change a host, or what is stored of it."""
        again = self.vm.move(there)
        assert set(again.changed.values()) == {0}, again.output[-4000:]
        applied = self.lab.play("networks.yml", *OWN_SET, manifests=self.manifests)
        assert set(applied.changed.values()) == {0}, applied.output[-4000:]


@pytest.fixture(scope="module")
def moving(lab, vm, own, tmp_path_factory) -> Iterator[Moving]:
    manifests = shutil.copytree(DATA / "manifests", tmp_path_factory.mktemp("service") / "manifests")
    (manifests / "web.yml").write_text(WEB)
    lab.play("networks.yml", *OWN_SET, manifests=manifests)
    yield Moving(lab, vm, manifests, [f"{own['prefix']}.2.20", f"{own['prefix6']}:2::20"])
    lab.play("networks.yml", *OWN_SET, manifests=DATA / "manifests")


def test_the_addresses_of_a_load_balancer_follow_the_vm(lab, moving):
    """With the policy Local its host answers for them, by the same steps as in networks.yml."""
    (here, there), before = moving.ends(), moving.holders()
    assert list(before.values()) == [here, here]
    watch = moving.watch()
    moved = figures(moving.vm.move(there))
    assert (sorted(moved["moved_addresses"]), moved["waiting"]) == (sorted(before), [])
    expect_move(watch, macs(lab.plan()), dict.fromkeys(before, (here, there)))
    moving.expect_nothing_left(there)


@pytest.mark.parametrize(
    "task",
    ["Prepare for addresses", "Give up addresses", "Take the addresses", "Apply the plan with the VM's host"],
)
def test_a_migration_that_was_killed_as_addresses_moved_is_completed_by_the_same_call(lab, moving, task):
    """Whatever the hosts have done by then or do afterwards: no address is on two hosts, and connections work."""
    (here, there), before = moving.ends(), moving.holders()
    assert set(before.values()) == {here}
    watch = moving.watch()
    disturbed("migrate_workload.yml", task, kill_run, "-e", f"workload={MACHINE}", "-e", f"to={there}")
    moving.vm.move(there)
    assert moving.holders() == dict.fromkeys(before, there)
    expect_move(watch, macs(lab.plan()), dict.fromkeys(before, (here, there)))
    moving.expect_nothing_left(there)
