# SPDX-License-Identifier: Apache-2.0
"""Questions before a change: answered by the operator, or beforehand by a parameter of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from html import escape

import pandas

from .problem import HeddleError


class Operation:
    """The record of one operation: who did what, when, with which answers and notes.

    `confirmed` are the steps that are confirmed beforehand, as a page that runs without a person has them; all others
    are asked for with `ask`.
    """

    def __init__(self, operator: str, confirmed: Iterable[str] = (), ask: Callable[[str], str] = input) -> None:
        if not operator:
            raise HeddleError("the record needs a name; set the parameter operator")
        self.operator, self._confirmed, self._ask = operator, {*confirmed}, ask
        self._rows: list[list[str]] = []
        self.note("begin", f"operator {operator}")

    def note(self, step: str, text: str) -> None:
        """Add a line to the record."""
        self._rows.append([datetime.now(UTC).isoformat(timespec="seconds"), step, text])

    def confirm(self, step: str, question: str) -> None:
        """Ask before a step; HeddleError, and nothing is done, unless the answer is yes."""
        if step in self._confirmed:
            self.note(step, "confirmed by a parameter")
            return
        try:
            answer = self._ask(f"{question} yes continues, anything else stops: ").strip()
        except (EOFError, RuntimeError, NotImplementedError):
            # Papermill's kernels accept no input.
            raise HeddleError(f"{step} is not confirmed; name it in the parameter confirmed, or run the page by hand") \
                from None  # fmt: skip
        self.note(step, f"answered {answer!r}")
        if answer.lower() != "yes":
            raise HeddleError(f"{step} was not confirmed; nothing was changed by it")

    @property
    def record(self) -> pandas.DataFrame:
        """Return all lines."""
        return pandas.DataFrame(self._rows, columns=["time", "step", "text"])

    def _repr_html_(self) -> str:
        return f"<p><b>Operation</b> by {escape(self.operator)}</p>" + self.record.to_html(index=False)
