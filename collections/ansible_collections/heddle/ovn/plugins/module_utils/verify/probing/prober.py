# SPDX-License-Identifier: Apache-2.0
"""Sends the questions of one host and its workloads, and records who answers.

The record travels to the control node. It contains answers only: both ends derive the same list of expectations from
plan and selection, so an expectation is identified by its index in that list, and one without an answer is omitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...common.addressing import plain
from ...common.serialization import digest
from ...render.common.node_network import is_mesh
from ..expectations.expectation import Pair, askers, expected
from ..expectations.external_expectations import external_flows, host_addresses
from ..expectations.external_flow import ExternalFlow
from ..expectations.fleet import FleetExpectations
from ..expectations.pools import with_pools
from ..expectations.selection import Selection
from .exchange import Exchange, Question, questions
from .listening import Place
from .pace import Pace
from .probe_scheduling import Unconfirmed, ask_required, ask_silent, confirm
from .result import MARGIN
from .send_errors import SendErrors

UNANSWERED = {
    "answered_by": None, "answered_on": None, "asker": None, "milliseconds": None, "large": False, "unsolicited": False,
}  # fmt: skip
# How often a question that any of several endpoints may answer is sent at a time when asked alone. A load balancer
# chooses one for each packet: with half of them dead, 20 in a row choose a dead one in one of a million cases.
_BALANCED_COPIES = 4
# ovn-controller answers for names and refuses, and resolves MAC addresses of external hosts. Controls pass the datapath
# alone, so they do not show that it stands still, which it may for some seconds on a busy host.
_CONTROLLER_SECONDS = 20.0
# Fields of the record of a question that was asked alone.
AGAIN = ("tries", "waited", "slowest", "dead", "near")


class Path(NamedTuple):
    """The host of a target, and the network of the mesh that leads there, "" for all other networks."""

    host: str
    mesh: str


@dataclass(frozen=True)
class Expectations:
    """The questions of one host: `rows` are evaluated, `controls` are answered by every working host.

    `hosts` has the node of each workload, `meshes` the networks of the mesh.
    """

    rows: list[Pair | ExternalFlow]
    controls: list[Pair]
    hosts: dict[str, str]
    meshes: frozenset[str] = frozenset()

    @classmethod
    def of(cls, plan: dict, runner: str, external: dict[str, list[str]], selection: Selection) -> Expectations:
        """Return those of a node, or of an external host."""
        plan = with_pools(plan)
        rows: list[Pair | ExternalFlow] = []
        if runner not in external:
            rows += expected(plan, runner, selection)
        rows += external_flows(plan, external, runner, selection)
        return cls._with_controls(plan, runner, external, rows)

    @classmethod
    def of_hosts(cls, fleet: FleetExpectations) -> dict[str, Expectations]:
        """Return those of all nodes and external hosts, as each computes them."""
        return {name: cls._with_controls(fleet.plan, name, fleet.external, rows) for name, rows in fleet.rows().items()}

    @classmethod
    def _with_controls(cls, plan: dict, runner: str, external: dict[str, list[str]], rows: list) -> Expectations:
        asked = askers(plan)
        # Only network namespaces can send; other kinds of workloads have no probe.
        hosts = {name: one["node"] for name, one in asked["workloads"].items()}
        meshes = frozenset(name for name, network in plan["networks"].items() if is_mesh(network))
        return cls(rows, _controls(asked, runner, external), hosts, meshes)

    @property
    def fingerprint(self) -> str:
        """Return a digest that is equal for equal lists of rows."""
        return digest([[one.source, one.target, one.network, one.address] for one in self.rows])

    def known_good(self, seen: dict[tuple, dict]) -> list[int]:
        """Return an answered row for each path and family, except services."""
        found: dict[tuple[Path, int], int] = {}
        for number, row in enumerate(self.rows):
            one = seen.get((row.source, row.target, row.network, row.address), UNANSWERED)
            if row.reach and self.host(row) and (one["answered_by"], one["answered_on"]) == (row.target, row.network):
                found.setdefault((self.path(row), row.family), number)
        return list(found.values())

    def unanswered(self, record: dict) -> int:
        """Return how many rows of a record should be asked alone, as far as this host can determine."""
        answered = {
            number
            for number, by, on, asker, _milliseconds, large, _unsolicited in record["answers"]
            if (by, on) == (self.rows[number].target, self.rows[number].network)
            and (large or not self.rows[number].mtu)
            and (not (right := getattr(self.rows[number], "right_sources", ())) or asker in right)
        }
        sent = set(range(len(self.rows))) - set(record["unsent"])
        silent = sum(self.rows[number].reach and number not in answered for number in sent)
        return silent + len(record["untested"])

    def host(self, row: Pair | ExternalFlow) -> str:
        """Return the host of a row's target; a service has none."""
        return "" if getattr(row, "protocol", "") else self.hosts.get(row.target, row.target)

    def path(self, row: Pair | ExternalFlow) -> Path:
        """Return a row's path from this host: to the target's host, and on which network of the mesh.

        The mesh has other tunnels than OVN, and flows are made by a daemon. So an answer on a network of OVN does not
        show how long one takes there.
        """
        beyond_source = row.network in self.meshes and row.source != row.target
        return Path(self.host(row), row.network if beyond_source else "")


def _controls(plan: dict, runner: str, external: dict[str, list[str]]) -> list[Pair]:
    """Return questions without a result: to the sender itself, and from external hosts to each node's own address."""
    if runner in external:
        targets = [(runner, address) for address in external[runner]]
        targets += [(node, address) for node in plan["nodes"] for address in host_addresses(plan, node)]
        return [Pair(runner, target, "", *_family(address), True, "") for target, address in targets]
    found = [Pair(runner, runner, "", *_family(address), True, "") for address in host_addresses(plan, runner)]
    own = [
        (name, interface["network"], plain(interface["addresses"][0]))
        for name, one in plan["workloads"].items()
        if one["node"] == runner
        for interface in one["interfaces"]
        if interface["addresses"]
    ]
    return found + [Pair(name, name, network, *_family(address), True, "") for name, network, address in own[:1]]


def _family(address: str) -> tuple[int, str]:
    return (6 if ":" in address else 4), address


def probe(asked: Expectations, places: dict[str, Place], port: int, timeout: float) -> tuple[dict, list[str]]:
    """Ask everything; return the record and one line for each source that could not send.

    `places` holds where each source's sockets are. After `timeout` seconds without any answer the rest is skipped.
    """
    rows = [*asked.rows, *asked.controls]
    pace = Pace()
    with Exchange(questions(rows), places, port) as exchange:
        open_ = [number for number in range(len(exchange.asked)) if number not in exchange.unsent]
        required = {
            number: bool(exchange.asked[number].wanted.mtu) for number in open_ if exchange.asked[number].wanted
        }
        ask_required(required, exchange, pace, timeout)
        silent = [number for number in open_ if exchange.asked[number].wanted is None]
        controls = _known_good(asked, exchange.asked)
        untested, slowest = ask_silent(silent, controls, exchange, pace, timeout) if silent else (set(), 0.0)
        record = _record(asked, exchange.asked, range(len(asked.rows)), exchange.unsent, untested)
        record["slowest"] = round(1000 * max(slowest, pace.slowest), 2)
        return record, exchange.problems


def probe_again(
    asked: Expectations, again: dict, places: dict[str, Place], port: int, timeout: float
) -> tuple[dict, list[str]]:
    """Ask rows that were not answered, or wrongly, once more, each alone.

    `again` lists them as `unconfirmed`, and as `good` rows that were answered; `slowest` is how many seconds an answer
    took on any host. The record's `again` has, by row: `tries`, `waited` and `slowest` (control) in seconds, `dead`,
    and `near`: whether the control took the same path.
    """
    rows, unconfirmed = [*asked.rows, *asked.controls], again["unconfirmed"]
    chosen = [*unconfirmed, *again["good"], *range(len(asked.rows), len(rows))]
    pace = Pace()
    not_sent = SendErrors({place.namespace for place in places.values()})
    with Exchange([_alone(rows[number], number) for number in chosen], places, port) as exchange:
        good = [(number, exchange.asked[number].row) for number in range(len(unconfirmed), len(chosen))]
        wanted, near = [], {}
        for number in (one for one in range(len(unconfirmed)) if one not in exchange.unsent):
            row = exchange.asked[number].row
            controls = _alike(asked, row, good)
            near[number] = bool(controls) and asked.path(exchange.asked[controls[0]].row) == asked.path(row)
            least = least_wait(row, near[number], again["slowest"])
            copies = _BALANCED_COPIES if len(getattr(row, "responders", ())) > 1 else 1
            wanted.append(Unconfirmed(number, bool(row.reach and row.mtu), controls, least, copies))
        confirm(wanted, exchange, pace, timeout)
        if (count := not_sent.since()) and not all(one.concluded for one in wanted):
            exchange.problems.append(
                f"the kernel did not send {count} datagrams, because its table of neighbours or a queue was full; if "
                "its log has 'neighbor table overflow', raise net.ipv4.neigh.default.gc_thresh3 and the same of ipv6"
            )
        # A control may be one of these rows, too: its small packets have no part in the row's answer.
        record = _record(asked, exchange.asked[: len(unconfirmed)], unconfirmed, exchange.unsent, set())
        record["again"] = [
            [chosen[one.number], one.tries, round(one.waited, 2), round(one.slowest, 3), one.dead, near[one.number]]
            for one in wanted
        ]
        return record, exchange.problems


def least_wait(row: Pair | ExternalFlow, near: bool, slowest: float) -> float:
    """Return how many seconds to wait at least, in all, for a question that is asked alone.

    `near`: its control takes the same path. `slowest` is how many seconds an answer took on any host.
    """
    least = 0.0 if near else 1.1 * MARGIN * slowest
    return max(least, _CONTROLLER_SECONDS) if isinstance(row, ExternalFlow) and row.reach else least


def _alone(row: Pair | ExternalFlow, number: int) -> Question:
    return Question(row, [number], row if row.reach else None)


def _known_good(asked: Expectations, found: list[Question]) -> list[int]:
    """Return an answered question for each path and family; the host's own ones come last."""
    answered = [number for number, one in enumerate(found) if one.reached and not getattr(one.row, "protocol", "")]
    by_path: dict[tuple[Path, int], int] = {}
    for number in answered:
        row = found[number].row
        by_path.setdefault((asked.path(row), row.family), number)
    return list(by_path.values())


def _alike(
    asked: Expectations, row: Pair | ExternalFlow, good: list[tuple[int, Pair | ExternalFlow]]
) -> tuple[int, ...]:
    """Return the controls of a row, the most similar first: path and family, path, the same of its host, any, own."""
    host, path = asked.host(row), asked.path(row)
    ranks = (
        [number for number, one in good if asked.path(one) == path and one.family == row.family],
        [number for number, one in good if asked.path(one) == path],
        [number for number, one in good if asked.host(one) == host and one.family == row.family],
        [number for number, one in good if asked.host(one) == host],
        [number for number, one in good if one.source != one.target],
        [number for number, _one in good],
    )
    return tuple(dict.fromkeys(rank[0] for rank in ranks if rank))


def _record(asked: Expectations, found: list[Question], rows, unsent: set[int], untested: set[int]) -> dict:
    """Return the record: `questions`, `answers` by row, `unsent` and `untested` rows."""
    wanted = set(rows)
    answers, lost, late = [], [], []
    for number, question in enumerate(found):
        for row in question.rows:
            if row not in wanted:
                continue
            if number in unsent:
                lost.append(row)
            elif number in untested or (question.wanted and not question.reached and not asked.rows[row].reach):
                late.append(row)
            if (answer := _answer(asked.rows[row], question)) is not None:
                answers.append([row, *answer])
    return {"questions": asked.fingerprint, "answers": answers, "unsent": sorted(lost), "untested": sorted(late)}


def _answer(row: Pair | ExternalFlow, question: Question) -> list | None:
    """Return responder, its network, the address it saw, ms, whether in full size, and whether others answered."""
    giver = (row.target, row.network)
    if giver not in question.answers:
        giver = next(iter(question.answers), None)
    if giver is None and not question.unsolicited:
        return None
    took, asker = question.answers.get(giver, (None, None))
    by, on = giver or (None, None)
    milliseconds = None if took is None else round(1000 * took, 2)
    return [by, on, asker, milliseconds, bool(question.large and row.reach), question.unsolicited]


def expand(record: dict, asked: Expectations) -> dict[tuple, dict]:
    """Return results by (source, target, network, address), without rows that were not sent.

    ValueError: the record is of another list of expectations.
    """
    if record["questions"] != asked.fingerprint:
        raise ValueError("it tested other pairs than those of its plan; run heddle.ovn.networks")
    unsent, untested = set(record["unsent"]), set(record["untested"])
    found = {}
    for number, row in enumerate(asked.rows):
        if number not in unsent:
            one = found[row.source, row.target, row.network, row.address] = dict(UNANSWERED)
            if number in untested:
                one["untested"] = "no known-good question was answered any more"
    for number, *answer in record["answers"]:
        row = asked.rows[number]
        found[row.source, row.target, row.network, row.address].update(zip(UNANSWERED, answer, strict=True))
    return found


def expand_again(record: dict, asked: Expectations, seen: dict[tuple, dict]) -> dict[tuple, dict]:
    """Return by key the questions asked alone and whether they were `answered`, and add their answers to `seen`."""
    found = expand({**record, "unsent": [], "untested": []}, asked)
    alone = {}
    for number, *figures in record["again"]:
        row = asked.rows[number]
        key = row.source, row.target, row.network, row.address
        alone[key] = dict(zip(AGAIN, figures, strict=True))
        answer = found[key]
        alone[key]["answered"] = answer["answered_by"] is not None
        if answer["answered_by"] is not None and key in seen:
            answer["large"] = answer["large"] or seen[key]["large"]
            answer["unsolicited"] = answer["unsolicited"] or seen[key]["unsolicited"]
            seen[key] = answer
    return alone
