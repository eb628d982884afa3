# SPDX-License-Identifier: Apache-2.0
"""Result of the module `kept_address`: addresses whose hosts could not give them up stay there in the state.

So all hosts have one plan in which each address is on one host, and the next run moves them once more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..agent.module_runner import UserError
from ..api import Problem
from ..common.change import Outcome
from ..common.serialization import pack
from ..controllers.address_holders import update_holders
from ..controllers.admission.apply_manifests import ConflictError, store
from ..plan.address_holders import holders
from ..store.snapshot import Snapshot
from .admission_service import state_changes
from .plans import Plans
from .readiness import now, update_reports, with_changes_unconfirmed


def keep_addresses(client, moved: Mapping[str, str], hosts: Mapping[str, str], *, write: bool) -> dict:
    """Record that the addresses of some former hosts have not left them; return the result of the module.

    `moved` has the former host of each address that moves. `hosts` are those that have not given up theirs, with the
    reason. All other addresses move as they did.
    """
    if client is None:
        raise UserError("there is no state database yet; run heddle.ovn.site")
    moment, plans = now(), Plans()

    def decide(before: Snapshot) -> tuple[Snapshot, list[Problem]]:
        kept = {address: host for address, host in moved.items() if host in hosts}
        after = dataclasses.replace(before, objects=dict(before.objects))
        update_holders(before, after, moment, kept=kept)
        update_reports(after, moment)
        return with_changes_unconfirmed(before, after, moment, plans), []

    try:
        before, after = store(client, decide, write=write)
    except ConflictError as error:
        raise UserError(str(error)) from error
    outcome, plan = Outcome(state_changes(before, after)), plans.of(after)
    new, held = holders(plans.of(before)), holders(plan)
    return {
        "changed": outcome.changed,
        "plan": pack(plan),
        "digest": plan["digest"],
        "revision": after.revision,
        "moved_addresses": {address: host for address, host in moved.items() if held.get(address, host) != host},
        "waiting": [_line(host, reason, moved, new) for host, reason in sorted(hosts.items())],
    }


def _line(host: str, reason: str, moved: Mapping[str, str], new: Mapping[str, str]) -> str:
    waiting = [
        f"{address} for {new[address]}" if address in new else address
        for address, former in moved.items()
        if former == host
    ]
    return f"{host} has not given up {', '.join(waiting)}, and keeps it until a run of heddle.ovn.networks: {reason}"
