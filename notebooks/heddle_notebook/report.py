# SPDX-License-Identifier: Apache-2.0
"""Results of verify and audit, as pictures and tables for a notebook."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.markup import result_box, scaled

from . import tables
from .logical import logical
from .matrix import matrix
from .path import path
from .physical import physical
from .trace import Trace, read_traces

MOST_NETWORKS = 12
MOST_LINES = 20


class Picture:
    """An SVG document that notebooks show, never wider than the page."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_html_(self) -> str:
        return scaled(self.svg)


class Markup:
    """HTML that notebooks show."""

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        return self.html


class Report:
    """The results in a directory. Pictures are also kept as files in another one."""

    def __init__(self, directory: str, pictures: str = "") -> None:
        self.directory = Path(directory)
        self.pictures = Path(pictures) if pictures else self.directory / "pictures"
        self.plan = self._read("plan.json", "verify")
        self.verify = self._read("verify.json", "verify")
        self.audit = self._read("audit.json", "audit")
        self.traces = read_traces(self._text("trace.txt", "verify"))

    def _text(self, name: str, playbook: str) -> str:
        try:
            return (self.directory / name).read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{error.filename} is missing; run heddle.ovn.{playbook} first") from None

    def _read(self, name: str, playbook: str) -> dict:
        return json.loads(self._text(name, playbook))

    def _kept(self, name: str, svg: str) -> Picture:
        self.pictures.mkdir(parents=True, exist_ok=True)
        (self.pictures / f"{name}.svg").write_text(svg, encoding="utf-8")
        return Picture(svg)

    def summary(self) -> Markup:
        """Whether verify and audit passed, and what did not."""
        verify = self.verify["failures"] + self.verify["not_tested"] + self.verify["problems"]
        counts = ", ".join(f"{count} {name}" for name, count in self.verify["counts"].items())
        return Markup(
            result_box(f"Verify, {self.verify['time']}", self.verify["passed"], [counts, *verify[:MOST_LINES]])
            + result_box(f"Audit, {self.audit['time']}", self.audit["passed"], self.audit["problems"][:MOST_LINES])
        )

    def hosts(self) -> Markup:
        """The hosts."""
        return Markup(tables.hosts(self.plan))

    def networks(self) -> Markup:
        """The networks."""
        return Markup(tables.networks(self.plan))

    def workloads(self) -> Markup:
        """The workloads."""
        return Markup(tables.workloads(self.plan))

    def drift(self) -> Markup:
        """What the audit found."""
        return Markup(tables.drift(self.audit))

    def physical(self) -> Picture:
        """The hosts and what joins them."""
        return self._kept("physical", physical(self.plan))

    def logical(self) -> list[Picture]:
        """One picture for each network."""
        names = sorted(self.plan["networks"], key=lambda name: self.plan["networks"][name]["id"])
        return [self._kept(f"logical-{name}", logical(self.plan, name)) for name in names[:MOST_NETWORKS]]

    def matrix(self) -> Picture:
        """Reachability of all workloads."""
        return self._kept("matrix", matrix(self.plan, self.verify))

    def paths(self) -> list[tuple[Trace, Picture]]:
        """The traced packets."""
        return [
            (trace, self._kept(f"path-{number}", path(self.plan, trace)))
            for number, trace in enumerate(self.traces, start=1)
        ]

    def check(self) -> None:
        """Raise AssertionError unless everything passed and every traced packet arrived."""
        wrong = self.verify["failures"] + self.verify["not_tested"] + self.verify["problems"]
        assert self.verify["passed"], "verify failed:\n" + "\n".join(wrong[:MOST_LINES])
        assert self.audit["passed"], "the audit failed; see the table of drift above"
        assert self.verify["plan"] == self.plan["digest"], "verify.json and plan.json are of different plans"
        for trace in self.traces:
            assert all(leg.delivered for leg in trace.legs), f"ovn-trace did not deliver {trace.title}"
