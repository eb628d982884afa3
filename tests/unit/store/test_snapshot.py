# SPDX-License-Identifier: Apache-2.0
"""Objects by kind: the order and completeness of what `of_kind` returns, whatever was added and removed before."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.heddle.ovn.plugins.module_utils.store.snapshot import Snapshot, StoredObject

KINDS = ("Node", "NodeGroup", "UserDefinedNetwork", "Workload")
OBJECTS = some.builds(
    StoredObject, kind=some.sampled_from(KINDS), name=some.sampled_from("abc"), namespace=some.sampled_from(["", "n"])
)
STEPS = some.lists(
    some.tuples(
        some.sampled_from(
            ("set", "del", "pop", "update", "or", "setdefault", "popitem", "clear", "replace", "copy", "ask")
        ),
        OBJECTS,
    ),
    max_size=25,
)


def step(snapshot, name, entry):
    """Make one change; return the snapshot that has it."""
    objects, key = snapshot.objects, entry.key
    if name == "set":
        objects[key] = entry
    elif name == "del" and key in objects:
        del objects[key]
    elif name == "pop":
        objects.pop(key, None)
    elif name == "update":
        objects.update({key: entry})
    elif name == "or":
        snapshot.objects |= {key: entry}
    elif name == "setdefault":
        assert objects.setdefault(key, entry) is objects[key]
    elif name == "popitem" and objects:
        objects.popitem()
    elif name == "clear":
        objects.clear()
    elif name == "replace":
        snapshot.objects = {**objects, key: entry}
    elif name == "copy":
        return copy.deepcopy(snapshot)
    return snapshot


@given(STEPS)
def test_objects_of_a_kind_are_all_there_are_in_order(steps):
    snapshot = Snapshot()
    for name, entry in steps:
        snapshot = step(snapshot, name, entry)
        for kinds in (*((kind,) for kind in KINDS), ("Workload", "Node")):
            expected = sorted((one for one in snapshot.objects.values() if one.kind in kinds), key=lambda one: one.key)
            assert snapshot.of_kind(*kinds) == expected
