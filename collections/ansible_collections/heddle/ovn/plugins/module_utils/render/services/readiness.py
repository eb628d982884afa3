# SPDX-License-Identifier: Apache-2.0
"""Readiness probes of a node's workloads."""

from __future__ import annotations

from collections.abc import Iterator

from ...common.addressing import plain
from ...common.naming import workload_namespace
from ...common.plan_format import PROBES
from ...types.readiness_probe import EXEC, HTTP, TCP, Probe, Request


def has_probes(plan: dict) -> bool:
    """Return whether a workload of any node has a probe."""
    return PROBES in plan.get("daemons", ()) or any("readiness" in workload for workload in _workloads(plan))


def render_probes(plan: dict, node: str) -> dict[str, Probe]:
    """Return the probes of a node's workloads, by NAMESPACE/NAME of the workload.

    As in Kubernetes, a probe goes to the first address of the workload; here it comes from the workload itself.
    """
    return {
        f"{workload['namespace']}/{workload['name']}": _probe(workload)
        for workload in _workloads(plan)
        if workload["node"] == node and "readiness" in workload
    }


def _workloads(plan: dict) -> Iterator[dict]:
    yield from plan.get("workloads", {}).values()
    yield from plan.get("coil", {}).get("workloads", {}).values()


def _probe(workload: dict) -> Probe:
    fields = workload["readiness"]
    kind = next(name for name in (EXEC, HTTP, TCP) if name in fields)
    handler = fields[kind]
    return Probe(
        kind=kind,
        namespace=workload_namespace(workload["namespace"], workload["name"]),
        address=_address(workload),
        port=handler.get("port", 0),
        request=_request(handler) if kind == HTTP else None,
        command=tuple(handler.get("command", ())),
        delay=fields["initialDelaySeconds"],
        period=fields["periodSeconds"],
        timeout=fields["timeoutSeconds"],
        successes=fields["successThreshold"],
        failures=fields["failureThreshold"],
    )


def _request(handler: dict) -> Request:
    headers = tuple((one["name"], one["value"]) for one in handler["httpHeaders"])
    return Request(handler["scheme"], handler["path"], headers)


def _address(workload: dict) -> str:
    """Return the first address of the primary interface, or of a pool; "" for a workload without any."""
    interfaces = workload.get("interfaces", ())
    addresses = workload.get("addresses", ()) if not interfaces else next(
        (one["addresses"] for one in interfaces if one["role"] == "primary"), ()
    )  # fmt: skip
    return plain(addresses[0]) if addresses else ""
