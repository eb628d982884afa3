# SPDX-License-Identifier: Apache-2.0
"""The options of modules that the program of a host runs as well (`program/calls.py`).

They import nothing but constants: the control node checks a task's options against them without loading the rest.
"""

from __future__ import annotations

from ..common.databases import STATE_REMOTE

PLAN_FILE = "/var/lib/heddle/plan.json"
HANDOVER = ("prepare", "release", "claim")
ZONE_PARTS = ("topology", "gateway", "workloads")

PLAN_ARGUMENTS = {
    "plan": {"type": "path", "default": PLAN_FILE},
    "document": {"type": "str"},
    "node": {"type": "str", "required": True},
}
# Paths, not secrets: the modules read the files on their host.
TLS_FILES = ("private_key", "certificate", "ca_cert")
STATE_DATABASE = {
    "socket": {"type": "str", "default": STATE_REMOTE},
    **{name: {"type": "path", "no_log": False} for name in TLS_FILES},
}
ZONE_ARGUMENTS = {
    "node": {"type": "str", "required": True},
    "document": {"type": "str", "required": True},
    "plan": {"type": "path", "default": PLAN_FILE},
    "parts": {"type": "list", "elements": "str", "choices": list(ZONE_PARTS), "default": list(ZONE_PARTS)},
    "wait_timeout": {"type": "int", "default": 120},
    "audit": {"type": "bool", "default": False},
    "handover": {"type": "str", "choices": list(HANDOVER)},
    "moved": {"type": "dict", "default": {}},
}
RESOURCE_ARGUMENTS = {
    "resources": {"type": "str", "required": True},
    "nodes": {"type": "dict", "required": True},
    "settings": {"type": "dict", "default": {}},
    "manifest_set": {"type": "str", "default": "default"},
    "deployment": {"type": "str", "default": "heddle"},
    "released": {"type": "list", "elements": "str", "default": []},
    "hosts": {"type": "dict", "default": {}},
    "probes": {"type": "dict", "default": {}},
    **STATE_DATABASE,
}
READINESS_ARGUMENTS = {
    "hosts": {"type": "dict", "required": True},
    "probes": {"type": "dict", "default": {}},
    "digest": {"type": "str"},
    "attention": {"type": "list", "elements": "str", "default": []},
    **STATE_DATABASE,
}
HOST_INFO_ARGUMENTS = {**PLAN_ARGUMENTS, "external": {"type": "list", "elements": "str", "default": []}}
REACHABILITY_ARGUMENTS = {
    **PLAN_ARGUMENTS,
    "state": {"type": "str", "choices": ["started", "probed", "confirmed", "stopped"], "required": True},
    "port": {"type": "int", "default": 7654},
    "lifetime": {"type": "int", "default": 14400},
    "timeout": {"type": "int", "default": 60},
    "external": {"type": "dict", "default": {}},
    "pairs": {"type": "str", "choices": ["classes", "all"], "default": "classes"},
    "seed": {"type": "str", "default": ""},
    "again": {"type": "str"},
}
REACHABILITY_REQUIRED_IF = [("state", "confirmed", ["again"])]
PROBE_INFO_ARGUMENTS = {"node": PLAN_ARGUMENTS["node"], "plan": PLAN_ARGUMENTS["plan"]}
