# SPDX-License-Identifier: Apache-2.0
"""What the control node must have: versions of Python and ansible-core, and Python packages of optional parts."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import yaml

from .fleet import Mistake

# module_utils use what Python has since this version; also in pyproject.toml.
PYTHON = (3, 11)
_RUNTIME = Path(__file__).resolve().parents[3] / "meta" / "runtime.yml"


def required_ansible(file: Path = _RUNTIME) -> tuple[int, ...]:
    """Return the smallest version of ansible-core, from `requires_ansible`."""
    text = yaml.safe_load(file.read_text(encoding="utf-8"))["requires_ansible"]
    return version(text.removeprefix(">="))


def version(text: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version: 2.19.4 of `2.19.4rc1` is (2, 19, 4)."""
    found = []
    for part in text.split("."):
        digits = part[: next((place for place, letter in enumerate(part) if not letter.isdecimal()), len(part))]
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)


def control_mistakes(ansible: str, python: tuple[int, ...], packages: list[dict]) -> Iterator[Mistake]:
    """Versions that are too old, and packages (`name`, `requirements`) that are missing, of the control node."""
    least = required_ansible()
    if version(ansible)[: len(least)] < least:
        wanted = ".".join(map(str, least))
        remedy = f"install one of at least {wanted}: pip install 'ansible-core>={wanted}'"
        yield Mistake((), "control node", f"ansible-core is {ansible}", remedy)
    if tuple(python[:2]) < PYTHON:
        wanted = ".".join(map(str, PYTHON))
        rule = f"Ansible runs with Python {'.'.join(map(str, python[:3]))}"
        yield Mistake((), "control node", rule, f"install ansible-core for Python {wanted} or later")
    for package in packages:
        if importlib.util.find_spec(package["name"]) is None:
            rule = f"the Python package {package['name']} is missing"
            yield Mistake((), "control node", rule, f"pip install -r {package['requirements']}")
