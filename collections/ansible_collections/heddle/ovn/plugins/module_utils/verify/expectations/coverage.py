# SPDX-License-Identifier: Apache-2.0
"""Coverage of a reachability run: which classes of questions were tested and which were left out. Pure."""

from __future__ import annotations

from collections import Counter

from ...common.text.some_of import some_of
from ..probing.result import NOT_TESTED
from .expectation import askers
from .fleet import FleetExpectations
from .flow_classes import class_of
from .selection import MOST_NAMES, Groups

# The label of each kind of class in a report.
SORTS = {
    "network": "network x host pair x direction x family",
    "workload": "workload as target x network x family",
    "policy": "policies of source x policies of target x network x family",
    "isolation": "network x host against each other network x family",
    "flow": "north-south flow x network x host x family",
    "node port": "node port beyond the provider network: sender x address's NIC x topology x policy x host x family",
}


def coverage(fleet: FleetExpectations, pairs: list[dict], rows: list[dict]) -> dict:
    """Return `pairs`, `seed`, `sorts` (by name: `covered` and `of`) and `left_out`, lines of text.

    `pairs` and `rows` are evaluated expectations, within networks and north-south. A class counts as covered when a
    question that stands for it has a result.
    """
    plan, asked, groups = fleet.plan, askers(fleet.plan), fleet.groups
    results: dict[tuple[str, str, str], list[tuple[int, bool]]] = {}
    for one in pairs:
        key = one["source"], one["target"], one["network"]
        results.setdefault(key, []).append((one["family"], one["result"] != NOT_TESTED))
    classes: dict[tuple, bool] = {}
    for one in fleet.chosen:
        for number, tested in results.get((one.source, one.target, one.network), ()):
            for key in one.classes:
                classes[*key, str(number)] = classes.get((*key, str(number)), False) or tested
    tested_rows = {(row["source"], row["target"], row["network"], row["address"], row["kind"]): row for row in rows}
    for one in fleet.flows:
        row = tested_rows.get((one.source, one.target, one.network, one.address, one.kind))
        key = ("node port" if one.way else "flow", *class_of(asked, one))
        classes[key] = classes.get(key, False) or bool(row and row["result"] != NOT_TESTED)
    of, covered = Counter(key[0] for key in classes), Counter(key[0] for key, tested in classes.items() if tested)
    machines = [name for name in plan["workloads"] if name not in asked["workloads"]]
    lines = [*groups.left_out(), *_host_pairs(groups, results)]
    if machines:
        lines.append(f"virtual machines are not tested: {', '.join(sorted(machines))}")
    return {
        "pairs": fleet.selection.pairs,
        "seed": fleet.selection.seed,
        "sorts": {sort: {"covered": covered[sort], "of": of[sort]} for sort in SORTS if of[sort]},
        "left_out": lines,
    }


def _host_pairs(groups: Groups, results: dict[tuple[str, str, str], list[tuple[int, bool]]]) -> list[str]:
    """Return how many pairs of hosts were tested on the networks where each host asks some of the others only.

    `results` has by source, target and network a family and whether it was tested. All questions between workloads of
    one network count, whatever they were chosen for.
    """
    sampled = groups.sampled()
    if not sampled:
        return []
    tested = {
        (network, groups.node[source], groups.node[target])
        for (source, target, network), found in results.items()
        if network in sampled and network in groups.networks[source] and any(done for _family, done in found)
    }
    pairs = sum(here != there for _network, here, there in tested)
    every = sum(count * (count - 1) for count in sampled.values())
    most, networks = groups.most_others, some_of(list(sampled), MOST_NAMES)
    return [
        f"hosts: {pairs} of {every} pairs of a sending and a receiving host were tested on {networks}: "
        f"with more than {most + 1} hosts each sends to {most} others, another seed chooses other ones"
    ]
