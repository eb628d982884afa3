# SPDX-License-Identifier: Apache-2.0
"""The live tests of Egress in a guest of User Mode Linux, whose kernel has FoU; no lab and no root."""

from __future__ import annotations

import pytest

from tests.lab.suite import run_in_guest
from tests.lab.test_uml_guest import parts

__all__ = ["parts"]


def test_packets_of_egress(parts, tmp_path):
    report = run_in_guest(*parts, ["tests/live/egress"], tmp_path)
    wrong = {name: outcome for name, outcome in report.outcomes.items() if outcome != "PASSED"}
    if wrong or not report.outcomes:
        pytest.fail(report.console[-20000:])
