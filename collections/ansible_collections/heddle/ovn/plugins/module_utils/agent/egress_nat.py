# SPDX-License-Identifier: Apache-2.0
"""Applies the tunnels of Egress routers and clients, in the namespaces of the node's workloads.

The file MARK is there as long as a namespace of the host may have any: without Egress objects nothing is read.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..common.change import Outcome
from ..common.processes import subprocesses
from ..common.text.some_of import some_of
from ..netlink import kernel
from ..netlink.egress_nat import is_marked, planned_egress, reconcile_egress, remove_egress
from ..netlink.protocol import fou
from ..netlink.workload_links import mark
from ..nftables.reconcile import reconcile_firewall
from ..render.coil.egress_nat import render_egress
from ..types.egress_nat import EgressNamespace
from ..types.nftables_ruleset import EGRESS_TABLE, Firewall

# As the namespaces themselves it is gone after a reboot.
MARK = Path("/run/heddle/egress")
# There as long as an Egress on this host needed what the kernel lacks; another kernel comes with a reboot.
LACKING = Path("/run/heddle/egress-lacking")


def known_lacking(file: Path = LACKING) -> list[str]:
    """Return what this kernel lacks of what an Egress on this host needed; nothing as long as none did.

    Hosts without Egress are not asked, since a question loads modules. One that lacked something is asked again.
    """
    return fou.lacking() if file.exists() else []


def lacking_tunnels(plan: dict, node: str, *, write: bool, file: Path = LACKING) -> Outcome:
    """Return a note when this kernel cannot make the tunnels that the node needs: the rest of the plan is applied.

    The next plan places routers on other hosts, and has the reason in the conditions of clients.
    """
    names = [one.namespace for one in render_egress(plan, node)]
    if not names or kernel.PYROUTE2_IMPORT_ERROR is not None:
        return Outcome()
    found = fou.lacking()
    if not found:
        if write:
            file.unlink(missing_ok=True)
        return Outcome()
    if write:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return Outcome(
        notes=(
            f"the kernel of this host ({os.uname().release}) lacks {', '.join(found)}, which the Egress routers and "
            f"clients on it need ({some_of(names)}), so they have no tunnels: boot a kernel with CONFIG_NET_FOU, "
            "NET_FOU_IP_TUNNELS, NET_IPIP, IPV6_FOU, IPV6_TUNNEL and DUMMY, as Debian's is, or place them on other "
            "hosts (nodeSelector, spec.node)",
        )
    )


def apply_egress(
    plan: dict, node: str, owner: str, *, write: bool, run: subprocesses.Run = subprocesses.run, mark_file: Path = MARK
) -> Outcome:
    """Bring the namespaces of the node's workloads, which are there already, to the plan; `owner` is theirs.

    On a kernel without tunnels nothing is done, and a note says so.
    """
    lacking = lacking_tunnels(plan, node, write=write)
    if lacking.notes:
        return lacking
    desired = {one.namespace: one for one in render_egress(plan, node)}
    if not desired and not mark_file.exists():
        return Outcome()
    if write and desired:
        mark_file.parent.mkdir(parents=True, exist_ok=True)
        mark_file.touch()
    outcome = Outcome()
    there = kernel.namespaces()
    for name in sorted(set(there) - set(desired)):
        if kernel.read_alias(name, "lo") == mark(owner):
            outcome += _removed(name, write=write, run=run)
    for name, one in desired.items():
        outcome += _applied(one, write=write, run=run) if name in there else planned_egress(one)
    if write and not desired:
        mark_file.unlink(missing_ok=True)
    return outcome


def _applied(desired: EgressNamespace, *, write: bool, run: subprocesses.Run) -> Outcome:
    with kernel.in_netns(desired.namespace):
        # Translation first: a router forwards nothing with a client's address.
        outcome = reconcile_firewall(desired.firewall, write=write, run=run)
        return Outcome(outcome.changes) + reconcile_egress(desired, write=write)


def _removed(name: str, *, write: bool, run: subprocesses.Run) -> Outcome:
    with kernel.in_netns(name):
        if not is_marked():
            return Outcome()
        outcome = reconcile_firewall(Firewall(table=EGRESS_TABLE), write=write, run=run)
        return Outcome(outcome.changes) + remove_egress(name, write=write)
