# SPDX-License-Identifier: Apache-2.0
"""The engine for virtual machines and their tap devices: desired and what is there -> steps -> writes.

Own are machines whose directory names the owner, and links that carry the owner's mark. Other QEMUs are never looked
at. A machine that is on the move is not restarted or started again here: only its move may end it. What a move that is
over left behind, which waits for a machine or has sent it off, is begun anew where the machine is to run.
"""

from __future__ import annotations

from functools import partial

from ..common.change import Change, Outcome
from ..common.errors import HypervisorError, NetlinkError
from ..netlink import kernel
from ..netlink.step import Step, perform
from ..netlink.workload_links import mark
from ..types.virtual_machine import Card, VirtualMachine
from . import instance

SUBSTRATE = "hypervisor"


def arguments(machine: VirtualMachine) -> str:
    """Return what a machine's QEMU is told beyond what all are (the unit of the role `hypervisor`)."""
    words = ["-m", str(machine.memory)]
    for number, card in enumerate(machine.cards):
        # Without the header, guest and host exchange complete checksums and single frames, as a userspace switch needs.
        tap = f"tap,id=net{number},ifname={card.host_name},script=no,downscript=no,vhost=off,vnet_hdr=off"
        device = f"virtio-net-pci,id=card{number},netdev=net{number},mac={card.mac},host_mtu={card.mtu},romfile="
        words += ["-netdev", tap, "-device", device]
    return " ".join(words)


def end_machines(machines: list[VirtualMachine], *, owner: str, write: bool) -> Outcome:
    """End the owner's machines that are not among `machines`; their ports and taps may go after that."""
    wanted = {machine.name for machine in machines}
    steps = [
        Step(_change("delete", name, {"arguments": there["arguments"]}, {}), partial(instance.stop, name))
        for name, there in instance.read_machines().items()
        if there["owner"] == owner and name not in wanted
    ]
    return perform(steps, write=write)


def reconcile_machines(machines: list[VirtualMachine], *, owner: str, write: bool) -> Outcome:
    """Start the machines that do not run, and restart those that are not as wanted. Taps and ports come before.

    Raises HypervisorError where a machine cannot run.
    """
    if write and machines and not instance.ready():
        raise HypervisorError(
            "this host is not set up for virtual machines; run playbooks/install.yml with the manifests that have them"
        )
    there = instance.read_machines()
    steps = []
    for machine in machines:
        steps += _machine_steps(machine, there.get(machine.name), owner)
    return perform(steps, write=write)


def _machine_steps(machine: VirtualMachine, there: dict | None, owner: str) -> list[Step]:
    if machine.role == "source":
        return _source_steps(machine, there, owner)
    if there is not None and there["owner"] != owner:
        raise NetlinkError(f"virtual machine {machine.name} belongs to {there['owner']}; rename the workload")
    text, incoming = arguments(machine), machine.role == "target"
    begin = partial(instance.start, machine.name, owner, text, incoming=incoming)
    after = {"arguments": text, "incoming": incoming}
    if there is None or not there["active"]:
        return [Step(_change("create", machine.name, {}, after), begin)]
    if incoming and there["incoming"]:
        return []
    # Without that mark it is left from before the machine ran elsewhere: this host was off, or failed, meanwhile.
    if incoming or there["arguments"] != text or _left_over(machine.name, there):

        def restart() -> None:
            instance.stop(machine.name)
            begin()

        before = {"arguments": there["arguments"], "incoming": there["incoming"]}
        return [Step(_change("update", machine.name, before, after), restart)]
    if there["incoming"]:
        change = _change("update", machine.name, {"incoming": True}, {"incoming": False})
        return [Step(change, partial(instance.forget_incoming, machine.name))]
    if there["moving"]:
        change = _change("update", machine.name, {"moving": True}, {"moving": False})
        return [Step(change, partial(instance.forget_moving, machine.name))]
    return []


def _left_over(name: str, there: dict) -> bool:
    """Tell whether this is an end of a move in which nobody runs the machine."""
    return (there["incoming"] or there["moving"]) and instance.status(name) in ("inmigrate", "postmigrate")


def _source_steps(machine: VirtualMachine, there: dict | None, owner: str) -> list[Step]:
    if there is None or there["owner"] != owner or there["moving"]:
        return []
    change = _change("update", machine.name, {"moving": False}, {"moving": True})
    return [Step(change, partial(instance.note_moving, machine.name))]


def _change(action: str, name: str, before: dict, after: dict) -> Change:
    return Change(SUBSTRATE, action, "virtual machine", name, "", before, after)


def reconcile_taps(machines: list[VirtualMachine], *, owner: str, write: bool) -> Outcome:
    """Bring the tap devices of `machines` to what they should be; the owner's others are removed."""
    links = kernel.read_links(None)
    wanted = {card.host_name: card for machine in machines for card in machine.cards}
    steps = []
    for name, link in sorted(links.items()):
        if link["alias"].startswith(f"{mark(owner)}:") and name not in wanted:
            network = link["alias"].removeprefix(f"{mark(owner)}:")
            change = Change("kernel", "delete", "tap", name, network, {"mtu": link["mtu"]}, {})
            steps.append(Step(change, partial(kernel.remove_link, name)))
    for name, card in sorted(wanted.items()):
        steps += _tap_steps(name, card, links.get(name), mark(owner, card.network))
    return perform(steps, write=write)


def _tap_steps(name: str, card: Card, there: dict | None, alias: str) -> list[Step]:
    wanted = {"alias": alias, "mtu": card.mtu, "up": True}
    if there is None:
        change = Change("kernel", "create", "tap", name, card.network, {}, wanted)
        return [Step(change, partial(_create_tap, name, card, alias))]
    if there["alias"] and there["alias"] != alias:
        raise NetlinkError(f"link {name} exists and is not Heddle's (alias {there['alias']}); remove it first")
    before = {key: there[key] for key in wanted}
    if before == wanted:
        return []
    settings = {"ifalias": alias, "mtu": card.mtu, "state": "up"}
    change = Change("kernel", "update", "tap", name, card.network, before, wanted)
    return [Step(change, partial(kernel.change_link, None, name, **settings))]


def _create_tap(name: str, card: Card, alias: str) -> None:
    kernel.create_tap(name, instance.user_id())
    kernel.change_link(None, name, ifalias=alias, mtu=card.mtu, state="up")
