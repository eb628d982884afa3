# SPDX-License-Identifier: Apache-2.0
"""A fleet of any size as the files of a report, for tests and benches of its page."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_files import status_files
from ansible_collections.heddle.ovn.plugins.module_utils.operations.status_view import state_view
from tests.pipeline import layer2, layer3, namespace, nodes, stored, workload

# What would end the script element that has the data, or begin another one.
HOSTILE = "</script><script>document.title='broken'</script><!-- <script> ]]> \u2028 &amp; % %data% \u0085 \ufeff"
HOSTS = nodes("node1", "node2", "node3")


# One of each, from which the others are copied: a network's objects differ only by name, number and addresses.
_MANIFESTS = (
    namespace("red")
    + layer2("red", "net", "10.0.0.0/24", "fd00:10::/64")
    + namespace("blue")
    + layer3("blue", "net", "10.128.0.0/16", 24)
    + "".join(workload("red", f"w{number}", host) for number, host in enumerate(HOSTS, 1))
    + workload("blue", "w1", "node1")
).replace(
    "metadata: {name: net, namespace: red}",
    f"metadata: {{name: net, namespace: red, annotations: {{note: {json.dumps(HOSTILE)}}}}}",
)


@functools.cache
def report_files(networks: int = 0, workloads: int = 0) -> dict[str, str]:
    """Return the status of a fleet by file name: four workloads, with as many further networks and workloads.

    All are ready. The network red/net has an annotation that is hostile to pages.
    """
    snapshot = stored(_MANIFESTS, hosts=HOSTS)
    snapshot.revision = 1
    view = state_view(snapshot)
    _copy_networks(view, networks)
    _copy_workloads(view, networks, workloads)
    audits = {name: {"digest": view["host_plans"][name], "drift": [], "problems": []} for name in HOSTS}
    return status_files(view, audits)


def _copy_networks(view: dict, count: int) -> None:
    for number in range(count):
        namespace_, source = f"tenant-{number:04}", ("red", "blue")[number % 2]
        network = copy.deepcopy(view["networks"][f"{source}_net"])
        network |= {"id": 10 + number, "object": f"UserDefinedNetwork/{namespace_}/net", "namespaces": [namespace_]}
        network["tunnel_keys"] = [16720000 + 2 * number + place for place in range(len(network["tunnel_keys"]))]
        document = copy.deepcopy(view["objects"][f"UserDefinedNetwork/{source}/net"])
        document["metadata"] |= {"namespace": namespace_, "annotations": {}}
        view["objects"][network["object"]] = document
        view["networks"][f"{namespace_}_net"] = network
        view["users"][f"{namespace_}_net"] = []


def _copy_workloads(view: dict, networks: int, count: int) -> None:
    for number in range(count):
        place = number % networks
        namespace_, name, source = f"tenant-{place:04}", f"w{number:04}", ("red/w1", "blue/w1")[place % 2]
        entry = copy.deepcopy(view["workloads"][source])
        entry |= {"name": name, "namespace": namespace_, "node": list(HOSTS)[number // networks % len(HOSTS)]}
        entry["interfaces"][1] |= {
            "network": f"{namespace_}_net",
            "addresses": [f"10.{place % 100}.{number // networks}.{number % 250 + 1}/16"],
            "mac": f"0a:58:0a:{number % 256:02x}:{number // 256:02x}:01",
        }
        document = copy.deepcopy(view["objects"][f"Workload/{source}"])
        document["metadata"] |= {"name": name, "namespace": namespace_}
        view["workloads"][f"{namespace_}/{name}"] = entry
        view["objects"][f"Workload/{namespace_}/{name}"] = document
        view["users"]["default"].append(f"{namespace_}/{name}")
        view["users"][f"{namespace_}_net"].append(f"{namespace_}/{name}")


def write_report(directory: Path, networks: int = 0, workloads: int = 0, **others: dict) -> Path:
    """Write the status of such a fleet, and other results by name, into a directory; return it."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in report_files(networks, workloads).items():
        (directory / name).write_text(text, encoding="utf-8")
    for name, content in others.items():
        (directory / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return directory
