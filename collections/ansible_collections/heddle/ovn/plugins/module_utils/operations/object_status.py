# SPDX-License-Identifier: Apache-2.0
"""The status of objects, as a server would return them, in a word or a line.

Imports neither the API's kinds nor what renders them: each run makes the page of the fleet, which needs this.
"""

from __future__ import annotations

from ..common.text.some_of import some_of
from ..controllers.node_conditions import READY_IN_ZONE, is_applied

_GOOD_WHEN_TRUE = (
    "NetworkCreated",
    "NetworkAllocationSucceeded",
    "NetworkReady",
    "Ready",
    "Managed",
    "Accepted",
    "Assigned",
    "Announced",
    "Complete",
)
# Conditions that need no attention, whatever their status.
_INFORMATION = ("NodesSelected",)
# How many objects a line names; status.json has all.
MOST_NAMES = 3


def object_status(document: dict) -> str:
    """Return an object's status: `Ready`, or the reason of the first condition that is not as it should be."""
    if "deletionTimestamp" in document["metadata"]:
        return "Deleting"
    status = document.get("status", {})
    for condition in status.get("conditions", ()):
        good = condition["type"] in _GOOD_WHEN_TRUE or condition["type"].startswith(READY_IN_ZONE)
        if good and condition["status"] != "True":
            return condition["reason"]
    return status.get("phase", "Ready") if is_applied(document) else "SetupFailed"


def attention(objects: dict[str, dict]) -> list[str]:
    """Return a line for each condition that needs an operator or has to be waited for.

    Objects with the same condition, such as all networks of an unreachable host, are listed on one line.
    """
    alike: dict[str, list[str]] = {}
    for key, document in objects.items():
        for one in document.get("status", {}).get("conditions", ()):
            # Networks have a line for a node that is not ready, so policies do not add theirs.
            if one["type"].startswith(READY_IN_ZONE):
                continue
            wrong = "False" if one["type"] in _GOOD_WHEN_TRUE else "True"
            if one["status"] == wrong and one["type"] not in _INFORMATION:
                text = f"{one['type']} {one['status']} ({one['reason']}): {one['message']}"
                alike.setdefault(text, []).append(key)
    return [f"{some_of(keys, MOST_NAMES)}: {text}" for text, keys in alike.items()]
