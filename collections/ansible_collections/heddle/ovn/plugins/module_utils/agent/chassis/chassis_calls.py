# SPDX-License-Identifier: Apache-2.0
"""Results of the modules `chassis` and `chassis_info`, of the latter without a comparison with the plan."""

from __future__ import annotations

from ..context import only_writer
from ..module_runner import Request, result
from .chassis import apply_chassis
from .chassis_options import CHASSIS_OPTIONS

# With the host's name: Ansible shows equal warnings once.
_DIFFERS = (
    "Open vSwitch of {} differs from the inventory. The plan keeps the previously reported values of the host; "
    "heddle.ovn.install applies the inventory:"
)


def chassis_result(request: Request) -> dict:
    """Configure Open vSwitch and its bridges; return the changes, and what the host reports."""
    write = not request.check_mode
    with only_writer(write=write):
        outcome, facts = apply_chassis(dict(request.params), write=write)
    return {**result(outcome, diff=request.diff), **facts}


def described(request: Request) -> dict:
    """Return what the host reports, and how it differs from the options."""
    params = {name: value for name, value in request.params.items() if name in CHASSIS_OPTIONS}
    outcome, facts = apply_chassis(params, write=False)
    differences = result(outcome, diff=False)["changes"]["objects"]
    more = ", ..." if len(differences) > 1 else ""
    warnings = [f"{_DIFFERS.format(request.params['name'])} {differences[0]}{more}"] if differences else []
    return {"changed": False, "differences": differences, "warnings": warnings, **facts}
