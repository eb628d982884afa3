# SPDX-License-Identifier: Apache-2.0
"""Evaluation of north-south flows: expectations against observed answers. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..common.addressing import family
from ..common.naming import DEFAULT_NETWORK
from .expectations.expectation import fields_of
from .expectations.external_flow import (
    FROM_EXTERNAL,
    FROM_HOST,
    FROM_VRF,
    KINDS,
    THROUGH_EGRESS,
    TO_EXTERNAL,
    UNSOLICITED,
    ExternalFlow,
    sender_of,
)
from .probing.result import FAILED, ISOLATED, NOT_TESTED, REACHED, SYMBOLS, Silence


def evaluated(
    plan: dict,
    wanted: list[ExternalFlow],
    seen: dict,
    received: dict[tuple, float],
    tested: set[str],
    silence: Silence | None = None,
) -> list[dict]:
    """Return each flow with its `result` and, unless it is as expected, a `text` with the reason.

    `seen` and `received` are what the hosts reported by (source, target, network, address); `tested` are the hosts that
    answered. Of `received`, a value is how many seconds later the packet was answered.
    """
    silence = silence or Silence({}, {})
    received = received | _by_sender(received)
    rows = []
    for one in wanted:
        key = (one.source, one.target, one.network, one.address)
        row = _evaluated(plan, one, seen.get(key), received, tested, silence)
        rows.append(row)
        if one.kind in (TO_EXTERNAL, THROUGH_EGRESS) and row["result"] == REACHED:
            rows.append(_unsolicited(one, seen[key]))
    return rows


def _by_sender(received: dict[tuple, float]) -> dict[tuple, float]:
    """Return the same by sender and family, for questions that any of several workloads may answer."""
    found: dict[tuple, float] = {}
    for (source, _target, _network, address), late in received.items():
        key = source, family(address)
        found[key] = min(late, found.get(key, late))
    return found


def _evaluated(
    plan: dict,
    one: ExternalFlow,
    found: dict | None,
    received: dict[tuple, float],
    tested: set[str],
    silence: Silence,
) -> dict:
    key = (one.source, one.target, one.network, one.address)
    # Services get questions by a name of their own, as any of several workloads may answer.
    arrived = key in received or (sender_of(one), one.family) in received
    late = received.get(key, received.get((sender_of(one), one.family)))
    ends = [one.runner, one.through or plan["workloads"][one.workload]["node"]]
    if not one.protocol and one.target not in plan["workloads"]:
        ends.append(one.target)
    missing = [end for end in dict.fromkeys(ends) if end not in tested]
    if missing or found is None:
        why = f"{', '.join(missing)} did not answer" if missing else "its source could not send"
        return _row(one, NOT_TESTED, why, found)
    by, on = found["answered_by"], found["answered_on"]
    reached = (by, on) == (one.target, one.network)
    if not one.reach:
        other = not reached and _is_leak(one, on)
        if not reached and not arrived and not other:
            return _repeatable(one, found, silence.of_isolated(key, found))
        what = "answered" if reached else "got the packet, though no answer came back,"
        what = f"{by} answered on {on}" if other else what
        return _row(one, FAILED, f"{what} but must not: {one.reason}", found)
    if not reached:
        if by is not None:
            wrong = f"answered by {by} on {on or 'a host'}"
            return _repeatable(one, found, silence.of_wrong(key, wrong, one.runner, late))
        lost = "no answer" if late is None else "the packet arrived, its answer did not"
        return _repeatable(one, found, silence.of_required(key, lost, one.runner, late))
    if one.right_sources and found.get("asker") not in one.right_sources:
        wrong = f"seen as {found.get('asker')} there, not as {' or '.join(one.right_sources)}"
        return _repeatable(one, found, silence.of_wrong(key, wrong, one.runner, late))
    if one.mtu and not found.get("large"):
        lost = f"packets of {one.mtu} bytes get no answer, small ones do"
        return _repeatable(one, found, silence.of_required(key, lost, one.runner, late))
    return _row(one, REACHED, "", found)


def _is_leak(one: ExternalFlow, on: str | None) -> bool:
    """Return whether an answer on a network is a leak, whatever workload it came from.

    Where networks have equal subnets, another workload may have the address, on a network that the sender is in.
    """
    own = {FROM_EXTERNAL: (), FROM_HOST: (DEFAULT_NETWORK,), FROM_VRF: (one.network,)}.get(one.kind)
    return bool(on) and own is not None and on not in own


def _unsolicited(one: ExternalFlow, found: dict) -> dict:
    """Check that the source port was not open to sockets that had not been asked."""
    asked = replace(one, kind=UNSOLICITED, reach=False, reason="only the target that was asked may answer", mtu=0)
    if found.get("unsolicited"):
        return _row(asked, FAILED, f"an unsolicited source reached {one.source}", found)
    return _row(asked, ISOLATED, "", found)


def _repeatable(one: ExternalFlow, found: dict, result: dict) -> dict:
    row = _row(one, result["result"], result["text"], found)
    return {**row, "unconfirmed": result.get("unconfirmed", False)}


def _row(one: ExternalFlow, result: str, why: str, found: dict | None) -> dict:
    name = f"{one.kind}: {one.source} -> {one.target} {one.address} (IPv{one.family})"
    seen = {key: (found or {}).get(key) for key in ("answered_by", "answered_on", "asker", "milliseconds")}
    # A host that did not answer is reported once for each source, not once for each packet.
    text = why if result == NOT_TESTED or not why else f"{name}: {why}"
    return {**fields_of(one), **seen, "result": result, "text": text}


def report(plan: dict, rows: list[dict], left_out: list[str]) -> dict:
    """Return `counts` by kind and family, `workloads` with a symbol for each kind, `left_out` and all `flows`."""
    return {
        "kinds": list(KINDS),
        "counts": _counts(rows),
        "workloads": _symbols(plan, rows),
        "left_out": left_out,
        "flows": [{key: value for key, value in row.items() if key != "text"} for row in rows],
    }


def _counts(rows: list[dict]) -> list[dict]:
    counted = Counter((row["kind"], row["family"], row["reach"], row["result"]) for row in rows)
    found = []
    for kind in KINDS:
        for version in (4, 6):
            cells = {
                (reach, result): counted[kind, version, reach, result] for reach in (True, False) for result in SYMBOLS
            }
            if any(cells.values()):
                found.append(
                    {
                        "kind": kind,
                        "family": version,
                        "must_reach": sum(cells[True, result] for result in SYMBOLS),
                        "reached": cells[True, REACHED],
                        "must_not": sum(cells[False, result] for result in SYMBOLS),
                        "isolated": cells[False, ISOLATED],
                        "not_tested": cells[True, NOT_TESTED] + cells[False, NOT_TESTED],
                    }
                )
    return found


def _symbols(plan: dict, rows: list[dict]) -> dict[str, str]:
    """Return for each workload one symbol for each kind, the worst of its results; a blank where there was none."""
    order = list(SYMBOLS)
    worst: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["workload"], row["kind"])
        worst[key] = min(worst.get(key, len(order) - 1), order.index(row["result"]))
    return {
        name: "".join(SYMBOLS[order[worst[name, kind]]] if (name, kind) in worst else " " for kind in KINDS)
        for name in plan["workloads"]
    }
