# SPDX-License-Identifier: Apache-2.0
"""What may come of a packet, the symbol of each in tables (the worst comes first), and what silence means. Pure."""

from __future__ import annotations

REACHED, ISOLATED, FAILED, NOT_TESTED = "reached", "isolated", "failed", "not tested"
SYMBOLS = {FAILED: "!", NOT_TESTED: "?", REACHED: "+", ISOLATED: "."}
# Silence after so many times the slowest known-good answer is believed.
MARGIN = 4
# A packet that must not arrive was tested when it was sent alone so often.
_TIMES = 2


class Silence:
    """What the lack of an answer means, by what was asked alone.

    `hosts` as in `evaluation.evaluate`; `node_of` has the host of each workload.
    """

    def __init__(self, hosts: dict[str, dict], node_of: dict[str, str]) -> None:
        self.again = {key: one for host in hosts.values() for key, one in host.get("again", {}).items()}
        self.slowest = {name: host.get("slowest", 0) / 1000 for name, host in hosts.items()}
        self.node_of = node_of

    def of_required(self, key: tuple, text: str, runner: str) -> dict:
        """Return the result of what must be answered and was not. One that was not asked alone is a suspect."""
        one = self.again.get(key)
        if one is None:
            return {"result": FAILED, "text": text, "suspect": True}
        if too_slow := self._too_slow(one, runner, self.node_of.get(key[1], key[1])):
            return {"result": NOT_TESTED, "text": too_slow}
        return {"result": FAILED, "text": f"{text} (asked alone {one['tries']} times)"}

    def of_isolated(self, key: tuple, seen: dict) -> dict:
        """Return the result of what must not be answered and was not."""
        one = self.again.get(key)
        if "untested" not in seen or (one and one["tries"] >= _TIMES and not one["dead"]):
            return {"result": ISOLATED, "text": ""}
        why = f"too slow to tell: {seen['untested']}"
        return {"result": NOT_TESTED, "text": why, "suspect": one is None}

    def _too_slow(self, one: dict, runner: str, target: str) -> str:
        """Return why silence says nothing, "" when it does."""
        if one["dead"] or not one["tries"]:
            return f"too slow to tell: known-good questions took more than {one['dead']:g} s"
        # A control between other hosts says nothing about the target's: what that host measured itself does.
        slowest = (
            one["slowest"]
            if one["near"]
            else max(one["slowest"], *(self.slowest.get(end, 0) for end in (runner, target)))
        )
        if one["waited"] < MARGIN * slowest:
            return f"too slow to tell: known-good questions took up to {slowest:.1f} s"
        return ""
