# SPDX-License-Identifier: Apache-2.0
"""The status as files of the report: status.json for machines, status.txt for a terminal."""

from __future__ import annotations

import json

from .object_status import object_status
from .readiness import host_state, now
from .status_text import full_table, network_statuses

# What `state_view` returns; the result of a module has more.
_VIEW = (
    "revision", "deployment", "digest", "host_plans", "objects", "nodes", "networks", "workloads", "users", "endpoints",
    "coil",
)  # fmt: skip


def status_files(view: dict, audits: dict[str, dict]) -> dict[str, str]:
    """Return the text of each file by its name.

    `view` is the result of module `resource_info`, `audits` those of module `audit` by host. Besides the view,
    status.json has `time` (UTC, ISO 8601), `host_states`, `network_states` and `workload_states`: a keyword of each,
    and after a colon the reason. With address pools it has `routing`, the neighbours of BIRD by host.
    """
    # Without address pools there is no `coil`.
    kept = {name: view[name] for name in _VIEW if name in view}
    kept |= {
        "time": now(),
        "host_states": {name: host_state(view["host_plans"][name], audits.get(name) or {}) for name in view["nodes"]},
        "network_states": network_statuses(view, audits),
        "workload_states": {
            key.partition("/")[2]: object_status(document)
            for key, document in view["objects"].items()
            if document["kind"] == "Workload"
        },
    }
    if "coil" in kept:
        kept["routing"] = {
            name: audit["routing"] for name, audit in sorted(audits.items()) if (audit or {}).get("routing")
        }
    return {
        "status.json": json.dumps(kept, indent=4, sort_keys=True) + "\n",
        "status.txt": full_table(view, audits, kept["network_states"]) + "\n",
    }
