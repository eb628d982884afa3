# SPDX-License-Identifier: Apache-2.0
"""The engine for the tap devices of virtual machines: compares desired and actual state and applies the steps.

Own are links that carry the owner's mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..common.change import Change, Outcome
from ..common.errors import NetlinkError
from ..netlink import kernel
from ..netlink.link_settings import disable_ipv6
from ..netlink.reception import reception, set_reception, stale_links
from ..netlink.step import Step, perform
from ..netlink.workload_links import ClosePorts, mark
from ..types.virtual_machine import Nic, VirtualMachine
from . import instance


def reconcile_taps(
    vms: list[VirtualMachine],
    *,
    owner: str,
    userspace: bool,
    write: bool,
    close_ports: ClosePorts | None = None,
) -> Outcome:
    """Create or change the tap devices of `vms`; remove the owner's others.

    A tap is the switch's end of a VM's link, so the host has no IPv6 there. `userspace` is for Open vSwitch's userspace
    datapath: the host receives nothing there (see `reception`). `close_ports` as of `reconcile_endpoints`.
    """
    links = kernel.read_links(None)
    wanted = {nic.host_name: nic for vm in vms for nic in vm.nics}
    steps = []
    for name, link in sorted(links.items()):
        if link["alias"].startswith(f"{mark(owner)}:") and name not in wanted:
            network = link["alias"].removeprefix(f"{mark(owner)}:")
            change = Change("kernel", "delete", "tap", name, network, {"mtu": link["mtu"]}, {})
            steps.append(Step(change, partial(kernel.remove_link, name)))
    for name, nic in sorted(wanted.items()):
        steps += _steps(name, nic, links.get(name), mark(owner, nic.network), userspace)
    made = {name: nic.network for name, nic in wanted.items() if name not in links}
    stale = stale_links({name: nic.network for name, nic in wanted.items()}, links)
    closed = close_ports(made, stale) if userspace and close_ports and (made or stale) else Outcome()
    return closed + perform(steps, write=write)


def _steps(name: str, nic: Nic, there: dict | None, alias: str, userspace: bool) -> Iterator[Step]:
    wanted = {"alias": alias, "mtu": nic.mtu, "up": True}
    if there is None:
        change = Change("kernel", "create", "tap", name, nic.network, {}, wanted)
        yield Step(change, partial(_create, name, nic, alias, userspace))
        return
    if there["alias"] and there["alias"] != alias:
        raise NetlinkError(f"link {name} exists and is not Heddle's (alias {there['alias']}); remove it first")

    def update(before: dict, after: dict, write: partial) -> Step:
        return Step(Change("kernel", "update", "tap", name, nic.network, before, after), write)

    before = {key: there[key] for key in wanted}
    if before != wanted:
        yield update(before, wanted, partial(kernel.change_link, None, name, ifalias=alias, mtu=nic.mtu, state="up"))
    if there["ipv6"]:
        yield update({"host has IPv6": True}, {"host has IPv6": False}, partial(disable_ipv6, name))
    if userspace and any(reception(there).values()):
        before = reception(there)
        yield update(before, dict.fromkeys(before, False), partial(set_reception, name, receives=False))


def _create(name: str, nic: Nic, alias: str, userspace: bool) -> None:
    kernel.create_tap(name, instance.user_id())
    disable_ipv6(name)
    if userspace:
        set_reception(name, receives=False)
    kernel.change_link(None, name, ifalias=alias, mtu=nic.mtu, state="up")
