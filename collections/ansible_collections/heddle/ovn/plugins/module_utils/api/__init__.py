# SPDX-License-Identifier: Apache-2.0
"""The user-facing API: one file per kind under ``kinds``; parse, validate, normalise.

``read_manifests`` is the entry point. It has no side effects.
"""

from __future__ import annotations

from .coil.coil import DEFAULT_POOL, NODE_LABEL, POOL_ANNOTATION, POOL_LABEL, RESERVED_LABEL
from .manifests import read_manifests
from .networks.network_capacity import host_subnet_capacity, usable_addresses
from .networks.network_selection import selection_path
from .networks.updates import check_update
from .policy.policy_for import POLICY_FOR
from .policy.policy_spec import EGRESS, INGRESS
from .problem import Problem, Source
from .resource import Resource, packed, unpacked
from .selector import LabelledNames, matches, selector_text
from .unsupported_fields import unsupported

__all__ = [
    "DEFAULT_POOL",
    "EGRESS",
    "INGRESS",
    "NODE_LABEL",
    "POLICY_FOR",
    "POOL_ANNOTATION",
    "POOL_LABEL",
    "RESERVED_LABEL",
    "LabelledNames",
    "Problem",
    "Resource",
    "Source",
    "check_update",
    "host_subnet_capacity",
    "matches",
    "packed",
    "read_manifests",
    "selection_path",
    "selector_text",
    "unpacked",
    "unsupported",
    "usable_addresses",
]
