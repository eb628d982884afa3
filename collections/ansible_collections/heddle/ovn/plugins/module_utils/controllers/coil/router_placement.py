# SPDX-License-Identifier: Apache-2.0
"""On which hosts the routers of an Egress run: balanced, and sticky, so that a change moves as few as possible."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping


def place(
    name: str,
    count: int,
    hosts: Mapping[str, Mapping[str, str]],
    running: Mapping[str, str],
    *,
    load: Mapping[str, int],
    taken: Collection[str] = (),
    apart: Collection[str] = (),
    leaving: Collection[str] = (),
    may_leave: int | None = None,
) -> dict[str, str]:
    """Return the host of each router by its name, `name` and a number; fewer than `count` where hosts are missing.

    `hosts` are those that may be chosen, with their labels; `running` are the routers that are there. One stays where
    it is as long as its host may be chosen. A new one goes to the host with the fewest of this Egress, then with the
    least `load` (routers of others), then the first by name. When there are too many, those of the host with most of
    them go first, the highest number among them. `taken` are names of other workloads. Two routers are never on hosts
    that have the same value of a label of `apart`; a host without the label counts as one of its own.

    `leaving` are hosts that work and may not be chosen any more: at most `may_leave` routers leave them now, None for
    all, and the others stay.
    """
    found: dict[str, str] = {}
    ordered = sorted(running.items(), key=lambda item: _number(item[0]))
    for router, host in ordered:
        if host in hosts and _is_apart(host, found.values(), hosts, apart):
            found[router] = host
    if may_leave is not None:
        drained = [router for router, host in ordered if router not in found and host in leaving]
        found |= {router: running[router] for router in drained[may_leave:]}
    while len(found) > count:
        number_on = Counter(found.values())
        del found[max(found, key=lambda one: (found[one] not in hosts, number_on[found[one]], _number(one)))]
    while len(found) < count:
        number_on = Counter(found.values())
        free = [host for host in hosts if _is_apart(host, found.values(), hosts, apart)]
        if not free:
            break
        chosen = min(free, key=lambda host: (number_on[host], load.get(host, 0), host))
        names = (f"{name}-{number}" for number in itertools.count())
        found[next(one for one in names if one not in found and one not in taken)] = chosen
    return found


def _number(router: str) -> int:
    return int(router.rpartition("-")[2])


def _is_apart(host: str, used: Collection[str], hosts: Mapping[str, Mapping[str, str]], apart: Collection[str]) -> bool:
    return all(_value(host, key, hosts) != _value(other, key, hosts) for other in used for key in apart)


def _value(host: str, key: str, hosts: Mapping[str, Mapping[str, str]]) -> tuple:
    labels = hosts.get(host, {})
    return (True, labels[key]) if key in labels else (False, host)
