# SPDX-License-Identifier: Apache-2.0
"""Manifests to Northbound rows, one small case per behaviour.

`NAME.yml` is the input, `NAME.rows` what node1 gets for the networks in it. HEDDLE_RECORD=1 writes the latter anew. A
name that ends with `-shared` or `-local` configures external connectivity in that gateway mode. Networks are on all
nodes, unless the name ends with `-dynamic`. Of a case with `egress` in its name only those rows are shown that are
not there without its egress kinds. With `-names` there is a domain for names, with `-nics` hosts have a further NIC.
"""

import os
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.northbound import render_northbound
from ansible_collections.heddle.ovn.plugins.module_utils.types.ovsdb_row import Ref, Row
from tests.pipeline import EVERYWHERE, labelled, plan_of, with_gateways, with_nics

CASES = sorted((Path(__file__).parent / "northbound").glob("*.yml"))


def plan_for(case: Path, *, without: str = "") -> dict:
    mode = case.stem.rpartition("-")[2]
    documents = [one for one in case.read_text().split("---\n") if not without or f"kind: {without}" not in one]
    hosts = labelled(with_gateways(mode)) if mode in ("shared", "local") else None
    hosts = with_nics(hosts) if "-nics" in case.stem else hosts
    settings = {} if mode == "dynamic" else EVERYWHERE
    # Names are a case of their own, so that other cases show their rows alone.
    settings = settings if mode == "names" else {**settings, "cluster_domain": ""}
    return plan_of("---\n".join(documents), hosts=hosts, settings=settings)


def text_of(value) -> str:
    if isinstance(value, Ref):
        return f"-> {value.table} {value.key}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {text_of(item)}" for key, item in sorted(value.items())) + "}"
    if isinstance(value, set):
        return "[" + ", ".join(sorted(map(text_of, value))) + "]"
    return str(value)


def shown(row: Row) -> str:
    parent = f" in {row.parent.table} {row.parent.key}" if row.parent else ""
    columns = "".join(f"\n  {name}: {text_of(value)}" for name, value in sorted(row.columns.items()))
    return f"{row.table} {row.key}{parent}{columns}\n"


def test_there_are_cases():
    assert len(CASES) >= 4


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_rows(case):
    rows = render_northbound(plan_for(case), "node1")
    unit = "default" if case.stem.startswith("default") else case.stem.partition(".")[0].replace("__", "_")
    others = render_northbound(plan_for(case, without="Egress"), "node1") if ".egress" in case.stem else []
    known = set(map(shown, others))
    found = "\n".join(sorted(text for row in rows if row.network == unit and (text := shown(row)) not in known))
    assert found, f"no rows of network {unit}: name the case after its network"
    expected = case.with_suffix(".rows")
    if os.environ.get("HEDDLE_RECORD"):
        expected.write_text(found)
    assert found == expected.read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_keys_are_unique_and_every_reference_has_its_row(case):
    rows = render_northbound(plan_for(case), "node2")
    keys = [(row.table, row.key) for row in rows]
    assert len(set(keys)) == len(keys)
    wanted = {(row.parent.table, row.parent.key) for row in rows if row.parent}
    for row in rows:
        for value in row.columns.values():
            wanted |= {
                (item.table, item.key)
                for item in (value if isinstance(value, set) else [value])
                if isinstance(item, Ref)
            }
    assert wanted <= set(keys)
