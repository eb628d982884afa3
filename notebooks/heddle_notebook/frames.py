# SPDX-License-Identifier: Apache-2.0
"""Results of playbooks as pandas frames, with a form for notebooks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

import pandas

from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.colors import BAD, GOOD
from ansible_collections.heddle.ovn.plugins.plugin_utils.pages.markup import badge

from .collection import attention, cause_lines
from .matrix import matrix
from .play import RESULT
from .pools import NODE, POOL, of_kind, pools
from .report import Picture

_MOST = 20


def problems(found: list) -> pandas.DataFrame:
    """Return mistakes in manifests."""
    rows = [
        [one.source.file, one.source.line, one.resource, one.path, one.rule, one.remedy, str(one)] for one in found
    ]  # fmt: skip
    return pandas.DataFrame(rows, columns=["file", "line", "object", "field", "rule", "remedy", "text"])


def history(directory: Path) -> pandas.DataFrame:
    """Return the runs whose artifacts are in a directory."""
    rows = [json.loads(file.read_text(encoding="utf-8")) for file in directory.glob(f"*/{RESULT}")]
    columns = ["began", "name", "state", "seconds", "changed", "failed", "directory"]
    return pandas.DataFrame(rows, columns=columns).sort_values("began", ascending=False, ignore_index=True)


def _headline(title: str, good: bool, lines: list[str]) -> str:
    more = [f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    items = "".join(f"<li>{escape(line)}</li>" for line in [*lines[:_MOST], *more])
    result = badge("passed", GOOD) if good else badge("needs attention", BAD)
    return f"<p><b>{escape(title)}</b> {result}</p><ul>{items}</ul>"


class Status:
    """Hosts, networks and workloads, and what needs attention."""

    def __init__(self, content: dict) -> None:
        self.content = content
        self.attention = [f"{name}: {state}" for name, state in content["host_states"].items() if state != "ready"]
        self.attention += attention(content["objects"])

    @property
    def ready(self) -> bool:
        """Return whether all hosts and networks are as planned."""
        return not self.attention and set(self.content["network_states"].values()) <= {"Ready"}

    @property
    def hosts(self) -> pandas.DataFrame:
        """Return a row for each host."""
        rows = [
            [name, one["id"], one["chassis"], " ".join(one["encap_ips"]), " ".join(one["addresses"]),
             self.content["host_states"][name]]
            for name, one in self.content["nodes"].items()
        ]  # fmt: skip
        return pandas.DataFrame(rows, columns=["name", "id", "chassis", "tunnel", "addresses", "state"])

    @property
    def networks(self) -> pandas.DataFrame:
        """Return a row for each network."""
        rows = [
            [name, one["id"], one["topology"], one["role"], one["tunnel_keys"], one["subnets"], one["namespaces"],
             len(self.content["users"][name]), self.content["network_states"][name]]
            for name, one in self.content["networks"].items()
        ]  # fmt: skip
        columns = ["name", "id", "topology", "role", "keys", "subnets", "namespaces", "workloads", "state"]
        return pandas.DataFrame(rows, columns=columns).sort_values("id", ignore_index=True)

    @property
    def workloads(self) -> pandas.DataFrame:
        """Return a row for each interface of a workload."""
        rows = [
            [name, one["node"], port["name"], port["network"], port["role"], port["addresses"], port["mac"]]
            for name, one in self.content["workloads"].items()
            for port in one["interfaces"]
        ]
        columns = ["workload", "host", "interface", "network", "role", "addresses", "mac"]
        return pandas.DataFrame(rows, columns=columns)

    @property
    def blocks(self) -> pandas.DataFrame:
        """Return a row for each block of an address pool, with its host."""
        rows = [
            [labels.get(POOL, ""), one["index"], labels.get(NODE, ""), one.get("ipv4"), one.get("ipv6")]
            for one in of_kind(self.content, "AddressBlock")
            for labels in [one["metadata"].get("labels", {})]
        ]
        columns = ["pool", "index", "host", "ipv4", "ipv6"]
        return pandas.DataFrame(rows, columns=columns).sort_values(["pool", "index"], ignore_index=True)

    def pools(self) -> Picture:
        """Return the picture of the address pools and their blocks."""
        return Picture(pools(self.content))

    def _repr_html_(self) -> str:
        head = _headline(f"Status, {self.content['time']}", self.ready, self.attention)
        return head + self.hosts.to_html(index=False) + self.networks.to_html(index=False)


class Verify:
    """The result of verify."""

    def __init__(self, content: dict) -> None:
        self.content = content
        self.passed = content["passed"]
        self.wrong = [*content["failures"], *content["not_tested"], *content["problems"]]

    @property
    def networks(self) -> pandas.DataFrame:
        """Return, for each network and family, what was reached and isolated."""
        return pandas.DataFrame(self.content["networks"])

    @property
    def flows(self) -> pandas.DataFrame:
        """Return each flow to and from hosts, services and beyond, with what had to happen, why, and what did."""
        columns = ["kind", "source", "target", "family", "address", "protocol", "port", "reach", "reason", "result"]
        found = self.content["north_south"]["flows"]
        return pandas.DataFrame([{name: one[name] for name in columns} for one in found], columns=columns)

    @property
    def pairs(self) -> pandas.DataFrame:
        """Return each question from one workload to an address of another one, with why, and what happened."""
        columns = ["source", "target", "network", "family", "address", "reach", "reason", "result"]
        rows = [{name: one[name] for name in columns} for one in self.content["pairs"]]
        return pandas.DataFrame(rows, columns=columns)

    def matrix(self, plan: dict, within: Sequence[str] = ()) -> Picture:
        """Return the picture of the reachability of all workloads, or of those in some namespaces."""
        return Picture(matrix(plan, self.content, within))

    def _repr_html_(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.content["counts"].items())
        return _headline(f"Verify, {self.content['time']}: {counts}", self.passed, self.wrong)


class Audit:
    """The result of an audit."""

    def __init__(self, content: dict) -> None:
        self.content = content
        self.passed = content["passed"]
        self.problems = content["problems"]

    @property
    def causes(self) -> pandas.DataFrame:
        """Return the causes of drift, with how much each explains, the largest first."""
        rows = [
            [name, cause["substrate"], cause["kind"], cause["name"], cause["network"], cause["drift"]]
            for name, host in self.content["hosts"].items()
            for cause in host["causes"]
        ]
        columns = ["host", "substrate", "kind", "name", "network", "drift"]
        return pandas.DataFrame(rows, columns=columns).sort_values("drift", ascending=False, ignore_index=True)

    @property
    def findings(self) -> pandas.DataFrame:
        """Return all findings by severity: errors (no comparison), drift by cause, foreign objects, notes."""
        rows = [["error", "", line] for line in self.problems]
        for severity, lines in (
            ("drift", cause_lines),
            ("foreign", lambda host: [f"{one['substrate']} {one['kind']} {one['name']}" for one in host["foreign"]]),
            ("note", lambda host: host["notes"]),
        ):
            rows += [[severity, name, line] for name, host in self.content["hosts"].items() for line in lines(host)]
        return pandas.DataFrame(rows, columns=["severity", "host", "finding"])

    def since(self, before: Audit) -> pandas.DataFrame:
        """Return findings that an earlier audit had not (`new`), and those that are gone; only of hosts in both."""
        earlier = before.findings[before.findings["host"].isin(["", *self.content["hosts"]])]
        both = earlier.merge(self.findings, how="outer", indicator="change")
        both["change"] = both["change"].map({"left_only": "gone", "right_only": "new", "both": "same"}).astype(str)
        return both[both["change"] != "same"].reset_index(drop=True)

    def _repr_html_(self) -> str:
        checked = sum(host["checked"] for host in self.content["hosts"].values())
        title = f"Audit, {self.content['time']}: {checked} objects on {len(self.content['hosts'])} hosts"
        lines = [f"{one.severity}: {one.host} {one.finding}" for one in self.findings.itertuples()]
        return _headline(title, self.passed, lines)
