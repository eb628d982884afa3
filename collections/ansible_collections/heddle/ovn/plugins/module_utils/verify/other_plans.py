# SPDX-License-Identifier: Apache-2.0
"""Hosts that have another plan than the stored manifests make; for audit and verify."""

from __future__ import annotations


def other_plans(found: dict[str, str], stored: dict[str, str] | None) -> list[str]:
    """Return a line that names these hosts, if there are any.

    `found` and `stored` have by host the digest of the part of the plan that it has, and that it should have; the
    latter is None where the state database did not answer.
    """
    others = [name for name, digest in found.items() if stored is not None and digest != stored.get(name)]
    have = "have" if others[1:] else "has"
    remedy = "run heddle.ovn.networks"
    return [f"the stored manifests make another plan than {', '.join(others)} {have}; {remedy}"] if others else []
