# SPDX-License-Identifier: Apache-2.0
"""Common code of all modules: options, connections, check mode, errors, results."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import TypeVar

from ..common.change import Outcome
from ..common.errors import EngineError
from ..common.naming import ADDRESS_POOLS
from ..common.plan_format import PLAN_FORMAT, has_ovn
from ..common.processes import bytecode_cache
from ..common.serialization import unpack
from ..ovsdb.protocol.client import Client, OvsdbError, Unreachable
from ..ovsdb.protocol.remotes import parse_remotes
from ..render.common.host_plan import host_plan
from .context import NodeContext
from .damaged_plan import MALFORMED, damage
from .module_options import PLAN_ARGUMENTS, PLAN_FILE

__all__ = ["PLAN_ARGUMENTS", "PLAN_FILE"]

HOST_FILE = "/var/lib/heddle/host.json"

Options = TypeVar("Options")


class UserError(Exception):
    """An error that the user can act on; the text says how."""


KNOWN_ERRORS = (UserError, EngineError, OvsdbError)
_PLAN_PARTS = {
    "deployment": str, "digest": str, "networks": dict, "nodes": dict, "revision": int, "settings": dict,
    "workloads": dict,
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What a module is called with, by Ansible or by the program of the host (`program/calls.py`).

    `sources` identifies the sources of that program; "" when Ansible runs the module.
    """

    params: dict
    check_mode: bool
    diff: bool = False
    sources: str = ""


@contextlib.contextmanager
def reported(module) -> Iterator[None]:
    """Turn errors of the engines into one clear error message of the module."""
    # The process ends soon; collecting cycles would take a tenth of its time.
    gc.disable()
    try:
        yield
    except (*_kernel_refusals(), *KNOWN_ERRORS) as error:
        module.fail_json(msg=_message(error))
    except MALFORMED as error:
        text = _damage(module.params, error)
        if not text:
            raise
        module.fail_json(msg=text)
    finally:
        if not module.check_mode:
            bytecode_cache.keep()


def answer(function: Callable[[Request], dict], request: Request, *, cached: bool = True) -> dict:
    """Return the result of a module; `failed` and `msg` when an engine refuses.

    Without `cached` no byte code is stored on the host.
    """
    gc.disable()
    try:
        return function(request)
    except (*_kernel_refusals(), *KNOWN_ERRORS) as error:
        return {"failed": True, "changed": False, "msg": _message(error)}
    except MALFORMED as error:
        text = _damage(request.params, error)
        if not text:
            raise
        return {"failed": True, "changed": False, "msg": text}
    finally:
        if cached and not request.check_mode:
            bytecode_cache.keep()


def run(module, function: Callable[[Request], dict], *, cached: bool = True) -> None:
    """End the module with the result of `function`; `cached` as for `answer`."""
    result = answer(function, Request(module.params, module.check_mode, module._diff), cached=cached)
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)


def _damage(params: dict, error: Exception) -> str:
    """Return what is wrong with the plan's file that a module uses; "" for nothing, and without such an option."""
    return damage(params["plan"], error) if params.get("plan") else ""


def _message(error: Exception) -> str:
    if isinstance(error, Unreachable):
        return f"{error}. Is the service running? The install playbook starts it."
    if isinstance(error, KNOWN_ERRORS):
        return str(error)
    return f"the kernel rejected an operation that Heddle needs (it runs as root on hosts): {error}"


def _kernel_refusals() -> tuple[type[Exception], ...]:
    """Return the exception types of kernel errors. Without netlink, pyroute2 is not loaded, which is slow."""
    kernel = sys.modules.get(f"{__package__.removesuffix('.agent')}.netlink.kernel")
    return (OSError, kernel.NetlinkFailure) if kernel else (OSError,)


def node_context(module) -> NodeContext:
    """Return the options `node`, `plan`, `document`, `wait_timeout` of a module or Request, and whether it writes."""
    return NodeContext(
        node=module.params["node"],
        plan_path=module.params["plan"],
        write=not module.check_mode,
        document=module.params["document"],
        timeout=module.params.get("wait_timeout", 0),
    )


def options(module, kind: type[Options]) -> Options:
    """Return the options of a module as the data class that its callee takes; its fields have their names."""
    return kind(**{field.name: module.params[field.name] for field in fields(kind)})


@contextlib.contextmanager
def connected(remote: str, *, write: bool, timeout: float = 60.0) -> Iterator[Client | None]:
    """Connect to a database; None when there is none and nothing is to be written, since a host may still be empty.

    Without `write` the client is read-only. The server may be silent for `timeout` seconds. Raises Unreachable.
    """
    servers = parse_remotes(remote)
    if not write and all(server.scheme == "unix" and not os.path.exists(server.host) for server in servers):
        yield None
        return
    with Client(remote, timeout, read_only=not write) as client:
        yield client


class PlanTooNew(UserError):
    """The plan has a format that this program does not know."""


def load_plan(context: NodeContext) -> dict:
    """Return the plan from `document`, or else the host's part of it from the file; UserError when that is no plan."""
    if context.document:
        try:
            plan = unpack(context.document)
        except ValueError as error:
            raise UserError(f"document: {error}") from error
        if not _is_plan(plan):
            raise UserError("document: not a plan as the module resource returns it")
        return _known_format(plan, "document")
    return read_plan_file(context.plan_path)


def load_host_plan(context: NodeContext) -> dict:
    """Return the host's part of the plan, of `document` or else from the file; UserError when that is no plan.

    The document may be that part, or the plan of all hosts.
    """
    plan = load_plan(context)
    return host_plan(plan, context.node) if context.document else plan


def read_plan_file(path: str) -> dict:
    """Return the part of the plan in a file; UserError when there is none or it is damaged."""
    try:
        with open(path, encoding="utf-8") as text:
            plan = json.load(text)
    except (OSError, ValueError) as error:
        raise UserError(f"no plan in {path}: {error}. Run heddle.ovn.networks, which writes it.") from error
    if not _is_plan(plan):
        raise UserError(f"no plan in {path}: the file is damaged. Run heddle.ovn.networks, which writes it.")
    return _known_format(plan, path)


def _is_plan(plan: object) -> bool:
    return isinstance(plan, dict) and all(isinstance(plan.get(part), kind) for part, kind in _PLAN_PARTS.items())


def _known_format(plan: dict, source: str) -> dict:
    """Return the plan; PlanTooNew when a later release made it, as after an upgrade of the control node alone."""
    found = plan.get("format")
    if isinstance(found, int) and found > PLAN_FORMAT:
        raise PlanTooNew(
            f"{source}: the plan has format {found}, and this program reads formats up to {PLAN_FORMAT}. Run "
            "heddle.ovn.install of the release that made the plan; it installs a program that reads it"
        )
    return plan


def known_node(plan: dict, name: str) -> str:
    """Return `name`; UserError when the plan has no such node, or does not have its chassis (system-id) yet."""
    node = plan["nodes"].get(name)
    if node is None:
        raise UserError(f"node {name} is not in the plan; it has {', '.join(plan['nodes'])}")
    if has_ovn(plan) and not node["chassis"]:
        raise UserError(
            f"the plan has no chassis for node {name}; run heddle.ovn.install on it, then heddle.ovn.networks"
        )
    return name


def refusal(outcome: Outcome) -> str:
    """Return which networks this host rejected and why, one per line; "" when there are none."""
    reasons: dict[str, str] = {}
    for network, reason in outcome.refused:
        reasons.setdefault(network if network == ADDRESS_POOLS else f"network {network}", reason)
    return "\n".join(f"{what}: {reason}" for what, reason in reasons.items())


def result(outcome: Outcome, *, diff: bool = True) -> dict:
    """Return what every module that writes reports: `changed`, `diff`, `changes`.

    Without `diff` that part is left out: writing thousands of rows as text takes longer than computing them.
    """
    return {
        "changed": outcome.changed,
        **({"diff": outcome.diff()} if diff else {}),
        # Ansible shows these, whatever the verbosity.
        **({"warnings": list(outcome.notes)} if outcome.notes else {}),
        "changes": {**outcome.summary(), "objects": [str(change) for change in outcome.changes[:100]]},
    }
