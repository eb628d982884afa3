# SPDX-License-Identifier: Apache-2.0
"""Records in the status of each network which hosts have it, from the hosts' reports after a run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Mapping
from functools import cache

from ..agent.module_runner import UserError
from ..api import Problem
from ..controllers.admission.apply_manifests import ConflictError, store
from ..controllers.conditions import ACCEPTED, TRUE, WAITING_FOR_HOSTS, condition, ready_on, with_ready
from ..controllers.kind_names import ADMIN_KINDS
from ..controllers.network.attachment import Attachments
from ..controllers.network.network_nodes import nodes_of_networks
from ..controllers.network.networks import networks
from ..controllers.node_conditions import NODE_KINDS, with_nodes, without_nodes
from ..controllers.policy.policies import policy_network
from ..controllers.unfinished_moves import end_moves
from ..controllers.workload.workload_readiness import record_probes
from ..render.common.changed_networks import differing_in_parts, differing_names
from ..render.common.hosting_nodes import hosting_nodes
from ..render.common.node_network import is_mesh
from ..store.snapshot import Snapshot, StoredObject
from .changed_objects import ChangedObjects
from .limited_moves import hosts_left_out, update_holders_within
from .plans import Plans

NOT_ASKED, READY, _DRIFTED = "not asked", "ready", "drifted"
_LONGEST_REASON = 200


def host_state(digest: str, report: dict) -> str:
    """Return the state of a host relative to its part of the plan, which has this digest: a keyword, `: ` and a reason.

    `report` is the result of module `audit` there. It is empty for a host that did not answer, has `failed` and
    `msg` if the plan could not be applied, and `asked` False for a host outside the run's limit.
    """
    if not report.get("asked", True):
        return NOT_ASKED
    if not report or report.get("unreachable"):
        return "no answer"
    if report.get("failed"):
        return f"failed: {_first_line(report.get('msg', ''))}"
    if report.get("stopped"):
        return _stopped(report["stopped"])
    if report.get("problems"):
        return f"cannot be compared: {_first_line(report['problems'][0])}"
    if not report.get("digest"):
        return f"not installed: {_first_line(report.get('msg', ''))}"
    if report["digest"] != digest:
        return "behind"
    return _DRIFTED if report["drift"] else READY


def pending(digests: Mapping[str, str], reports: dict[str, dict], moved: Collection[str]) -> list[str]:
    """Return the hosts that have something to apply: by their reports, and all where addresses move.

    `digests` are those of the hosts' host_plans.
    """
    states = {name: host_state(digest, reports.get(name, {})) for name, digest in digests.items()}
    return [name for name, state in states.items() if moved or state not in (READY, NOT_ASKED)]


def _stopped(units: list[str]) -> str:
    """Return which daemons do not run, and what starts them; as `health.stopped_units` reports one."""
    more = f" and {len(units) - 1} more" if len(units) > 1 else ""
    return f"{units[0]}{more} stopped: systemctl start {' '.join(units)} (logs: journalctl -u {units[0]})"


def _first_line(text: str) -> str:
    line = next(iter(text.splitlines()), "")
    return line if len(line) <= _LONGEST_REASON else line[:_LONGEST_REASON] + "..."


class HostReports:
    """The reports of hosts after a run, prepared once for all networks; `digests` are those of the hosts' parts."""

    def __init__(self, digests: Mapping[str, str], reports: dict[str, dict]) -> None:
        self._digests, self._reports, self._hosts = digests, reports, sorted(reports)
        self._states: dict[str, str] = {}
        self._drifted: dict[str, set[str]] = {}

    def of_network(self, name: str, described: dict) -> dict[str, str]:
        """Return the state of one network by host, sorted; hosts that it is not on have none.

        Drift of other networks does not count, drift of common objects does. `described` is the network in the plan.
        """
        having = described.get("host_subnets", self._reports)
        return {
            host: self._state(host, name) if host in having else "has no subnet of it"
            for host in self._hosts_of(described)
        }

    def _hosts_of(self, described: dict) -> list[str]:
        if "nodes" not in described:
            return self._hosts
        return sorted(host for host in set(described["nodes"]) if host in self._reports)

    def with_plan(self) -> set[str]:
        """Return the hosts that have applied their parts of the plan, whatever differs there."""
        states = {host: host_state(self._digests.get(host, ""), report) for host, report in self._reports.items()}
        return {host for host, state in states.items() if state in (READY, _DRIFTED)}

    def _state(self, host: str, name: str) -> str:
        report = self._reports[host]
        refused = report.get("refused")
        if refused:
            # A run that lists the networks a host rejected has applied all others.
            return f"refused: {_first_line(refused[name])}" if name in refused else READY
        if host not in self._states:
            self._states[host] = host_state(self._digests.get(host, ""), report)
            if self._states[host] == _DRIFTED:
                self._drifted[host] = {entry["network"] for entry in report["drift"]}
        state = self._states[host]
        return READY if state == _DRIFTED and self._drifted[host].isdisjoint(("", name)) else state


def with_probes(
    before: Snapshot, probes: dict[str, dict], moment: str, left_out: Collection[str] = ()
) -> Snapshot:  # fmt: skip
    """Return the snapshot after the reports of readiness probes, `{host: {workload: entry}}`, and what follows of them.

    Workloads that became ready or not are endpoints of Services, or are not any more. Addresses whose move needs a host
    that is `left_out` of the run stay.
    """
    after = dataclasses.replace(before, objects=dict(before.objects))
    record_probes(after, probes, moment)
    if after.objects == before.objects:
        return before
    update_holders_within(before, after, moment, left_out)
    update_reports(after, moment)
    return after


def with_readiness(
    before: Snapshot, reports: dict[str, dict], moment: str, plans: Plans | None = None
) -> Snapshot:  # fmt: skip
    """Return the snapshot with the condition NetworkReady of every network that is in effect.

    A host outside the limit keeps what it reported since the network changed last.
    """
    after, plans = dataclasses.replace(before, objects=dict(before.objects)), plans or Plans()
    plan, digests = (plans.of(before), plans.of_hosts(before).digests) if before.revision else ({"networks": {}}, {})
    hosts = HostReports(digests, reports)
    for name, described in plan["networks"].items():
        if not described["object"]:
            continue
        entry = before.objects[described["object"]]
        known = entry.status.get("hosts", {})
        states = {
            host: known.get(host, state) if state == NOT_ASKED else state
            for host, state in hosts.of_network(name, described).items()
        }
        after.objects[entry.key] = with_ready(entry, ready_on(states, NOT_ASKED), states, moment)
    _record_nodes(after, plan, hosts, moment)
    end_moves(after, hosts.with_plan())
    return plans.same(before, after) if before.revision else after


def _record_nodes(after: Snapshot, plan: dict, hosts: HostReports, moment: str) -> None:
    """Write what nodes report into the status of the objects that say so of each node."""
    entries = [entry for entry in after.of_kind(*NODE_KINDS) if _is_accepted(entry)]
    if not entries:
        return

    @cache
    def of_network(name: str) -> dict[str, str]:
        described = plan["networks"].get(name)
        return hosts.of_network(name, described) if described else {}

    @cache
    def of_every_network() -> dict[str, str]:
        return _of_every_network(plan, of_network)

    attachments = Attachments(networks(after))
    for entry in entries:
        if entry.kind in ADMIN_KINDS:
            states = of_every_network()
        else:
            network = policy_network(after, entry, attachments)
            states = of_network(network.name) if network else {}
        reasons = {node: {READY: "", NOT_ASKED: None}.get(state, state) for node, state in states.items()}
        after.objects[entry.key] = with_nodes(entry, reasons, moment)


def _is_accepted(entry: StoredObject) -> bool:
    accepted = condition(entry, ACCEPTED)
    return accepted is not None and accepted["status"] == TRUE


def _of_every_network(plan: dict, of_network: Callable[[str], dict[str, str]]) -> dict[str, str]:
    """Return the state of each node in all its primary networks: one that is not ready, if there is one."""
    found: dict[str, str] = {}
    for name, described in plan["networks"].items():
        if described["role"] != "Primary" or is_mesh(described):
            continue
        for node, state in of_network(name).items():
            if found.get(node, READY) == READY or (found[node] == NOT_ASKED and state != READY):
                found[node] = state
    return found


def with_changes_unconfirmed(
    before: Snapshot, after: Snapshot, moment: str, plans: Plans | None = None
) -> Snapshot:  # fmt: skip
    """Return `after` without the readiness of networks and objects that differ from `before`.

    No host has reported on these yet.
    """
    if not before.revision or after == before:
        return after
    plans = plans or Plans()
    old, new = plans.of(before), plans.of(after)
    if old["digest"] == new["digest"]:
        return after
    firewalls = differing_names(old.get("egress_firewalls", {}), new.get("egress_firewalls", {}))
    changed = changed_networks(old, new) | differing_in_parts(old, new) | firewalls
    objects, differing = dict(after.objects), ChangedObjects(old, new)
    for entry in after.of_kind(*NODE_KINDS):
        known = before.objects.get(entry.key)
        if known is not None and (known.spec != entry.spec or entry in differing):
            objects[entry.key] = without_nodes(entry)
    for name, described in new["networks"].items():
        if not described["object"] or name not in changed:
            continue
        entry = objects[described["object"]]
        objects[entry.key] = with_ready(entry, WAITING_FOR_HOSTS, None, moment)
    return plans.same(after, dataclasses.replace(after, objects=objects))


def update_reports(after: Snapshot, moment: str) -> None:
    """Leave out reports of hosts that a network is not on any more, after a step beside networks.yml.

    Such a step records no reports of hosts: what the others reported stays.
    """
    found = networks(after)
    for name, nodes in nodes_of_networks(after, found).items():
        entry = after.objects[found[name].object_key]
        known = entry.status.get("hosts", {})
        left = {host: state for host, state in known.items() if host in nodes}
        if left != known:
            after.objects[entry.key] = with_ready(entry, ready_on(left, NOT_ASKED), left, moment)


def changed_networks(old: dict | None, new: dict) -> set[str]:
    """Return the networks of the plan `new` that hosts render differently from `old`; all when there was no plan."""
    return set(changed_places(old, new))


def changed_places(old: dict | None, new: dict) -> dict[str, set[str] | None]:
    """Return these networks with the nodes of the workloads that differ, where nothing else of a network does.

    None where something else differs, so that it may on each of its nodes.
    """
    if old is None or any(old[part] != new[part] for part in ("settings", "nodes")):
        return dict.fromkeys(new["networks"])
    touched = _touched(old, new)
    return {
        name: touched[name] if same else None
        for name, described in new["networks"].items()
        if not (same := old["networks"].get(name) == described) or name in touched
    }


def _touched(old: dict, new: dict) -> dict[str, set[str]]:
    """Return the networks of workloads that differ between two plans, with the nodes of these workloads."""
    found: dict[str, set[str]] = {}
    for name in differing_names(old["workloads"], new["workloads"]):
        for workload in (plan["workloads"][name] for plan in (old, new) if name in plan["workloads"]):
            for interface in workload["interfaces"]:
                found.setdefault(interface["network"], set()).update(hosting_nodes(workload))
    return found


def now() -> str:
    """Return the current time in the format of the status of objects."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def record(
    client, reports: dict[str, dict], probes: dict[str, dict], *, write: bool, plans: Plans | None = None
) -> tuple[Snapshot, Snapshot]:
    """Update the stored readiness of workloads and networks from the reports; return the state before and after.

    When Services have other endpoints then, hosts have to apply a new plan, and no network is ready until they have.
    """
    moment = now()

    def decide(before: Snapshot) -> tuple[Snapshot, list[Problem]]:
        probed = with_probes(before, probes, moment, hosts_left_out(reports)) if before.revision else before
        if probed is not before:
            waiting = with_changes_unconfirmed(before, probed, moment, plans)
            if waiting is not probed:
                return waiting, []
        return with_readiness(probed, reports, moment, plans), []

    try:
        return store(client, decide, write=write)
    except ConflictError as error:
        raise UserError(str(error)) from error
