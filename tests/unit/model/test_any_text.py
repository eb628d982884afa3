# SPDX-License-Identifier: Apache-2.0
"""No text makes the model raise, and what it accepts can be stored."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.model import read_manifests

ROOT = Path(__file__).parents[3]
GOOD = [path.read_text() for path in sorted((ROOT / "inventories").rglob("manifests/*.yml"))]
WRONG = [path.read_text() for path in sorted((ROOT / "tests" / "golden" / "errors").glob("*.yml"))]

# Characters and words that mean something to YAML or to a manifest.
characters = st.sampled_from(" \t\n\r-?:,[]{}#&*!|>'\"%@`~/.\\0\x00\ud800\u2028\ufeff")
fragments = characters | st.sampled_from(["---\n", "...\n", "<<", "null", "yes", "1e9", "kind: ", "spec:"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | fragments,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=5,
)


def check(text: str, name: str = "a.yml") -> None:
    """Whatever holds for every text."""
    resources, problems = read_manifests([(name, text)])
    for problem in problems:
        assert len(str(problem).splitlines()) == 1
        assert problem.source.line >= 1
        assert problem.source.document >= 1
    for resource in resources:
        stored = json.dumps([resource.manifest, resource.spec, resource.labels, resource.annotations], allow_nan=False)
        stored.encode()


@given(st.text(st.characters()))
def test_any_text(text: str) -> None:
    check(text)


@given(st.lists(fragments, max_size=40))
def test_any_yaml_like_text(parts: list[str]) -> None:
    check("".join(parts))
    check("kind: Namespace\n" + "".join(parts), "a.json")


@given(st.sampled_from(GOOD + WRONG), st.data())
def test_cut_and_pasted_manifests(text: str, data: st.DataObject) -> None:
    """Replace a piece of a manifest by something else."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    check(text[:start] + data.draw(fragments | st.text(max_size=10)) + text[end:])


@given(st.sampled_from(GOOD), st.data())
def test_any_value_in_any_field(text: str, data: st.DataObject) -> None:
    """Replace the value of a field of a valid manifest by any other value, of any type."""
    manifest = data.draw(st.sampled_from([resource.manifest for resource in read_manifests([("a.yml", text)])[0]]))
    manifest = json.loads(json.dumps(manifest))
    place = manifest
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not (isinstance(place[key], dict | list) and place[key]) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(values)
    check(json.dumps(manifest))


def test_good_manifests_are_good() -> None:
    """Else the tests above would mutate nothing worth it."""
    for text in GOOD:
        resources, problems = read_manifests([("a.yml", text)])
        assert resources
        assert problems == []
