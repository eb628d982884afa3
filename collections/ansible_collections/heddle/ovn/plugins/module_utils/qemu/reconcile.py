# SPDX-License-Identifier: Apache-2.0
"""The engine for virtual machines: compares desired and actual state and applies the steps.

Own are VMs whose directory names the owner. Other QEMUs are ignored.
A migrating VM is not restarted or started again here: only its migration may end it. A QEMU left over from a
finished migration, which waits for a VM or has sent it, is restarted where the VM is to run.
"""

from __future__ import annotations

from functools import partial

from ..common.change import Change, Outcome
from ..common.errors import HypervisorError, NetlinkError
from ..netlink.step import Step, perform
from ..types.virtual_machine import VirtualMachine
from . import instance

SUBSTRATE = "hypervisor"
# The owner of a VM whose file of that name is empty: it has not started. It is anyone's to complete or to remove.
_CUT_OFF = ""


def arguments(vm: VirtualMachine) -> str:
    """Return a VM's QEMU arguments in addition to those of all VMs (the unit of the role `hypervisor`)."""
    words = ["-m", str(vm.memory)]
    for number, nic in enumerate(vm.nics):
        # Without the header, guest and host exchange complete checksums and single frames, as a userspace switch needs.
        tap = f"tap,id=net{number},ifname={nic.host_name},script=no,downscript=no,vhost=off,vnet_hdr=off"
        device = f"virtio-net-pci,id=nic{number},netdev=net{number},mac={nic.mac},host_mtu={nic.mtu},romfile="
        words += ["-netdev", tap, "-device", device]
    return " ".join(words)


def end_vms(vms: list[VirtualMachine], *, owner: str, write: bool) -> Outcome:
    """Stop the owner's VMs that are not among `vms`, before their ports and taps are removed."""
    wanted = {vm.name for vm in vms}
    steps = [
        Step(_change("delete", name, {"arguments": there["arguments"]}, {}), partial(instance.stop, name))
        for name, there in instance.read_vms().items()
        if there["owner"] in (owner, _CUT_OFF) and name not in wanted
    ]
    return perform(steps, write=write)


def reconcile_vms(vms: list[VirtualMachine], *, owner: str, write: bool) -> Outcome:
    """Start the VMs that do not run, and restart changed ones. Taps and ports must exist.

    Raises HypervisorError where a VM cannot run.
    """
    if write and vms and not instance.ready():
        raise HypervisorError(
            "this host is not set up for virtual machines; run heddle.ovn.install with the manifests that have them"
        )
    there = instance.read_vms()
    steps = []
    for vm in vms:
        steps += _vm_steps(vm, there.get(vm.name), owner)
    return perform(steps, write=write)


def _vm_steps(vm: VirtualMachine, there: dict | None, owner: str) -> list[Step]:
    if vm.role == "source":
        return _source_steps(vm, there, owner)
    if there is not None and there["owner"] not in (owner, _CUT_OFF):
        raise NetlinkError(f"virtual machine {vm.name} belongs to {there['owner']}; rename the workload")
    text, incoming = arguments(vm), vm.role == "target"
    begin = partial(instance.start, vm.name, owner, text, incoming=incoming)
    after = {"arguments": text, "incoming": incoming}
    if there is None or not there["active"]:
        return [Step(_change("create", vm.name, {}, after), begin)]
    if incoming and there["incoming"]:
        return []
    # Without that mark it is a leftover from before the VM ran elsewhere: this host was off, or failed, meanwhile.
    if incoming or there["arguments"] != text or _left_over(vm.name, there):

        def restart() -> None:
            instance.stop(vm.name)
            begin()

        before = {"arguments": there["arguments"], "incoming": there["incoming"]}
        return [Step(_change("update", vm.name, before, after), restart)]
    if there["incoming"]:
        change = _change("update", vm.name, {"incoming": True}, {"incoming": False})
        return [Step(change, partial(instance.forget_incoming, vm.name))]
    if there["moving"]:
        change = _change("update", vm.name, {"moving": True}, {"moving": False})
        return [Step(change, partial(instance.forget_moving, vm.name))]
    return []


def _left_over(name: str, there: dict) -> bool:
    """Return whether this is an end of a migration where the VM does not run."""
    return (there["incoming"] or there["moving"]) and instance.status(name) in ("inmigrate", "postmigrate")


def _source_steps(vm: VirtualMachine, there: dict | None, owner: str) -> list[Step]:
    if there is None or there["owner"] != owner or there["moving"]:
        return []
    change = _change("update", vm.name, {"moving": False}, {"moving": True})
    return [Step(change, partial(instance.note_moving, vm.name))]


def _change(action: str, name: str, before: dict, after: dict) -> Change:
    return Change(SUBSTRATE, action, "virtual machine", name, "", before, after)
