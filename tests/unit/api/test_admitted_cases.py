# SPDX-License-Identifier: Apache-2.0
"""Everything that validation accepts is either applied or refused at admission with a reason."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.plan.builder import build_plan
from tests.pipeline import decide, namespace
from tests.unit.api.case_tables import all_cases, manifest, update_cases

RED = namespace("red") + "\n---\n"


@pytest.mark.parametrize("table", sorted({name.partition(":")[0] for name, _document, _says in all_cases()}))
def test_every_valid_case_is_applied_or_refused(table: str) -> None:
    for name, document, says in all_cases():
        if name.startswith(f"{table}:") and not says:
            after, problems = decide(RED + json.dumps(document))
            assert all(problem.rule for problem in problems)
            assert problems or build_plan(after), name


def test_every_update_is_applied_or_refused() -> None:
    for name, old, new, says in update_cases():
        before, _problems = decide(RED + json.dumps(manifest(old)))
        after, problems = decide(RED + json.dumps(manifest(new)), before)
        assert problems or not says, name
        assert problems or build_plan(after), name
