# SPDX-License-Identifier: Apache-2.0
"""The load: many tenants with one primary network each, half Layer2 and half Layer3, dual stack, on three nodes.

    python -m tests.bench.load PLAN [--networks 1000] [--without-gateways]

writes the plan that other benches take (`northd`, `engine`, `memory`, `waiting`, `ovsdbapp_client`) into a file. The
nodes have external connectivity, so each network has a gateway router with a port on the provider network, unless
`--without-gateways` is given.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.api import Resource, read_manifests
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.admission.admission import admit
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.store import settings
from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot
from ansible_collections.heddle.ovn.plugins.module_utils.types.ovsdb_row import Row
from tests.pipeline import EVERYWHERE, THREE_NODES, namespace, with_gateways

NODE = "node1"
OWNER = "bench:topology"
WITHOUT_GATEWAYS = "--without-gateways"
PLAN_HELP = "file that `python -m tests.bench.load` writes"
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


def nodes(*, gateways: bool) -> dict[str, dict]:
    """Return what the nodes report; with gateways each has an uplink on one provider network."""
    return with_gateways("shared") if gateways else THREE_NODES


def admitted(
    found: list[Resource], before: Snapshot | None = None, chosen: dict | None = None, *, gateways: bool = False
) -> Snapshot:
    """Return the state after the manifests, with everything allocated; `chosen` are settings, `gateways` as in `nodes`.

    Dynamic networks are off unless `chosen` has them: without workloads no node would have a row of these networks.
    """
    complete = settings.complete({**EVERYWHERE, **(chosen or {})})
    after, problems = admit(
        before or Snapshot(), found, nodes(gateways=gateways), settings=complete, manifest_set="bench", name="bench"
    )
    if problems:
        raise ValueError("\n".join(map(str, problems[:10])))
    return after


def write_plan(path: Path, count: int, *, gateways: bool = True) -> None:
    """Write the plan of that many networks into a file."""
    state = admitted(resources(manifests(count)), gateways=gateways)
    path.write_text(json.dumps(build_plan(state)), encoding="utf-8")


def rows_of(path: Path) -> list[Row]:
    """Return the Northbound rows of one host for a plan in a file."""
    return render_northbound(json.loads(path.read_text(encoding="utf-8")), NODE)


def main() -> None:
    """Write the plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--networks", type=int, default=1000)
    parser.add_argument(WITHOUT_GATEWAYS, action="store_true")
    options = parser.parse_args()
    write_plan(options.plan, options.networks, gateways=not options.without_gateways)


if __name__ == "__main__":
    main()
