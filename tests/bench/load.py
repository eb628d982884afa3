# SPDX-License-Identifier: Apache-2.0
"""The load: many tenants with one primary network each, half Layer2 and half Layer3, dual stack, on three nodes."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.api import Resource, read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.admission.admission import admit
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.store import settings
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot
from ansible_collections.heddle.ovn.plugins.module_utils.types.ovsdb_row import Row
from tests.pipeline import EVERYWHERE, THREE_NODES, namespace

NODE = "node1"
OWNER = "bench:topology"
_LAYER2 = "topology: Layer2, layer2: {role: Primary, subnets: [10.200.0.0/16, 'fd00:200::/64']}"
_LAYER3 = (
    "topology: Layer3, layer3: {role: Primary, "
    "subnets: [{cidr: 10.201.0.0/16, hostSubnet: 24}, {cidr: 'fd00:201::/48', hostSubnet: 64}]}"
)


def manifests(count: int, *, layer2: bool = False) -> str:
    """Return the YAML of that many namespaces, each with its network; with `layer2` none is a Layer3 one."""
    return "".join(
        namespace(f"tenant{number}") + "---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\n"
        f"metadata: {{name: net, namespace: tenant{number}}}\n"
        f"spec: {{{_LAYER3 if number % 2 and not layer2 else _LAYER2}}}\n"
        for number in range(count)
    )


def resources(text: str) -> list[Resource]:
    """Return the validated manifests."""
    found, problems = read_manifests([("bench.yml", text)])
    if problems:
        raise ValueError("\n".join(map(str, problems[:10])))
    return found


def admitted(found: list[Resource], before: Snapshot | None = None, chosen: dict | None = None) -> Snapshot:
    """Return the state after the manifests, with everything allocated; `chosen` are settings.

    Dynamic networks are off unless `chosen` has them: without workloads no node would have a row of these networks.
    """
    complete = settings.complete({**EVERYWHERE, **(chosen or {})})
    after, problems = admit(
        before or Snapshot(), found, THREE_NODES, settings=complete, manifest_set="bench", name="bench"
    )
    if problems:
        raise ValueError("\n".join(map(str, problems[:10])))
    return after


def plan_file(folder: Path, count: int) -> Path:
    """Write the plan of that many networks into a file and return its path."""
    path = folder / f"plan-{count}.json"
    path.write_text(json.dumps(build_plan(admitted(resources(manifests(count))))), encoding="utf-8")
    return path


def rows_of(path: Path) -> list[Row]:
    """Return the Northbound rows of one host for a plan in a file."""
    return render_northbound(json.loads(path.read_text(encoding="utf-8")), NODE)
