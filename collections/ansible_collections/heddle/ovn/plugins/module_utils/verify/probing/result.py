# SPDX-License-Identifier: Apache-2.0
"""Possible results of a test packet, their symbols in tables (the worst first), and the evaluation of silence. Pure.

Wrong answers are evaluated like silence: they are failures only when they come again.
"""

from __future__ import annotations

REACHED, ISOLATED, FAILED, NOT_TESTED = "reached", "isolated", "failed", "not tested"
SYMBOLS = {FAILED: "!", NOT_TESTED: "?", REACHED: "+", ISOLATED: "."}
# Silence counts after this many times the slowest known-good answer.
MARGIN = 4
# A packet that must not arrive counts as tested when it was sent alone this often.
_TIMES = 2


class Silence:
    """Evaluates missing answers, by what was asked alone.

    `hosts` as in `evaluation.evaluate`; `node_of` has the host of each workload.
    """

    def __init__(self, hosts: dict[str, dict], node_of: dict[str, str]) -> None:
        self.again = {key: one for host in hosts.values() for key, one in host.get("again", {}).items()}
        self.slowest = {name: host.get("slowest", 0) / 1000 for name, host in hosts.items()}
        self.unrecorded = {name for name, host in hosts.items() if host.get("unrecorded")}
        self.node_of = node_of

    def of_required(self, key: tuple, text: str, runner: str, late: float | None = None) -> dict:
        """Return the result of a required answer that is missing. One that was not asked alone is `unconfirmed`.

        `late` is how many seconds after its arrival the question was answered at the soonest, None if none arrived.
        """
        one = self.again.get(key)
        if one is None:
            return {"result": FAILED, "text": text, "unconfirmed": True}
        too_slow = self._too_slow(one, runner, self.node_of.get(key[1], key[1]))
        if not too_slow and late is not None and one["waited"] < MARGIN * late:
            too_slow = f"too slow to evaluate: the packet arrived and was answered {late:.1f} s later"
        if too_slow:
            return {"result": NOT_TESTED, "text": too_slow}
        return {"result": FAILED, "text": f"{text} (asked alone {one['tries']} times)"}

    def of_wrong(self, key: tuple, text: str, runner: str, late: float | None = None) -> dict:
        """Return the result of a required answer that is wrong. It has failed when it was wrong again, asked alone.

        One that had no answer then counts as a missing answer.
        """
        one = self.again.get(key)
        if one is not None and one["answered"]:
            return {"result": FAILED, "text": f"{text} (also when asked alone)"}
        return self.of_required(key, text, runner, late)

    def of_isolated(self, key: tuple, seen: dict) -> dict:
        """Return the result of a question that must not be answered and was not."""
        target = self.node_of.get(key[1], key[1])
        if target in self.unrecorded:
            return {"result": NOT_TESTED, "text": f"the responder of {target} has no record of all that it received"}
        one = self.again.get(key)
        if "untested" not in seen or (one and one["tries"] >= _TIMES and not one["dead"]):
            return {"result": ISOLATED, "text": ""}
        why = f"too slow to evaluate: {seen['untested']}"
        return {"result": NOT_TESTED, "text": why, "unconfirmed": one is None}

    def _too_slow(self, one: dict, runner: str, target: str) -> str:
        """Return why silence is not conclusive, "" when it is."""
        if one["dead"] or not one["tries"]:
            return f"too slow to evaluate: known-good questions took more than {one['dead']:g} s"
        # A control between other hosts does not cover the target host; its own measurements do.
        slowest = (
            one["slowest"]
            if one["near"]
            else max(one["slowest"], *(self.slowest.get(end, 0) for end in (runner, target)))
        )
        if one["waited"] < MARGIN * slowest:
            return f"too slow to evaluate: known-good questions took up to {slowest:.1f} s"
        return ""
