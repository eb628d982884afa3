# SPDX-License-Identifier: Apache-2.0
"""Result of the module `underlay_probe`."""

from __future__ import annotations

import hashlib

from ..underlay_daemon.control import STARTED, NotMeasured, measure
from ..underlay_daemon.prober import Task
from .module_runner import Request, UserError

UNDERLAY_PROBE_ARGUMENTS = {
    "node": {"type": "str", "required": True},
    "peers": {"type": "dict", "required": True},
    "interface": {"type": "str", "required": True},
    "mtu": {"type": "int"},
    "measurement": {"type": "str", "default": "heddle"},
    "state": {"type": "str", "choices": ["started", "measured", "finished"], "required": True},
}
_RESULTS = {"started": "problems", "measured": "sent", "finished": "received"}


def measurement_token(name: str) -> bytes:
    """Return the 16 bytes that the probes of one measurement have in common."""
    return hashlib.sha256(f"heddle underlay {name}".encode()).digest()[:16]


def underlay_probe_result(request: Request) -> dict:
    """Do one step of a measurement on this host; nothing of it is a change."""
    params = request.params
    if params["node"] not in params["peers"]:
        raise UserError(f"peers has no {params['node']}; it needs the tunnel addresses of this host as well")
    token = measurement_token(params["measurement"])
    task = Task(params["node"], token, params["peers"], params["interface"], params["mtu"])
    try:
        found = measure(params["state"], task if params["state"] == STARTED else None)
    except NotMeasured as error:
        raise UserError(str(error)) from error
    return {"changed": False, _RESULTS[params["state"]]: found}
