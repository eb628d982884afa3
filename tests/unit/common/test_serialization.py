# SPDX-License-Identifier: Apache-2.0
"""Packed documents and the plan as a file."""

import errno
import hashlib
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.heddle.ovn.plugins.module_utils.agent.context import NodeContext
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError, load_plan
from ansible_collections.heddle.ovn.plugins.module_utils.agent.plan_file import keep_host, keep_plan
from ansible_collections.heddle.ovn.plugins.module_utils.common.plan_format import PLAN_FORMAT
from ansible_collections.heddle.ovn.plugins.module_utils.common.serialization import digest, pack, unpack
from tests.pipeline import decide, layer2, namespace, plan_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_unpack_returns_what_was_packed(value):
    assert unpack(pack(value)) == value


@pytest.mark.parametrize("text", ["", "no base64", "AAAA", pack({})[:-8]])
def test_invalid_packed_document_is_refused(text):
    with pytest.raises(ValueError, match="not a packed document"):
        unpack(text)


def test_the_digest_does_not_depend_on_order():
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


@given(JSON)
def test_the_digest_is_that_of_the_whole_json(value):
    """As those of plans that earlier releases stored."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    assert digest(value) == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_the_file_of_a_plan_has_a_line_for_each_network(tmp_path):
    path = tmp_path / "plan.json"
    plan = plan_of(namespace("red") + layer2("red", "net", "10.0.0.0/24"))
    keep_plan(plan, str(path), write=True)
    own = [line for line in path.read_text().splitlines() if line.startswith('  "red_net": {')]
    assert [json.loads(f"{{{line.rstrip(',')}}}") for line in own] == [{"red_net": plan["networks"]["red_net"]}]


def test_a_plan_that_was_read_is_not_read_again(tmp_path):
    path = tmp_path / "plan.json"
    plan = plan_of("")
    # Nothing is there to be read.
    assert not keep_plan(plan, str(path), write=True, kept=plan).changed


def test_a_plan_is_kept_once_and_not_in_check_mode(tmp_path):
    path = tmp_path / "heddle" / "plan.json"
    plan = plan_of(namespace("red") + layer2("red", "net", "10.0.0.0/24"))
    assert keep_plan(plan, str(path), write=False).changed
    assert not path.exists()
    assert keep_plan(plan, str(path), write=True).changed
    assert json.loads(path.read_text()) == plan
    again = keep_plan({**plan, "revision": plan["revision"] + 1}, str(path), write=True)
    assert not again.changed
    assert [entry.name for entry in path.parent.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("text", ["", '{"digest": "hal', "[]", '{"digest": "1"}', "\0\0"])
def test_a_torn_plan_is_replaced(tmp_path, text):
    path = tmp_path / "plan.json"
    path.write_text(text)
    assert keep_plan(plan_of(""), str(path), write=True).changed
    assert json.loads(path.read_text())["networks"].keys() == {"default"}


def test_foreign_document_is_refused():
    with pytest.raises(UserError, match="document: not a packed document"):
        load_plan(NodeContext("node1", "/nonexistent", write=False, document="nonsense"))


@pytest.mark.parametrize("packed", [True, False])
def test_a_plan_of_a_later_release_is_refused_and_stays(tmp_path, packed):
    path = tmp_path / "plan.json"
    later = {**plan_of(""), "format": PLAN_FORMAT + 1}
    path.write_text(json.dumps(later))
    context = NodeContext("node1", str(path), write=True, document=pack(later) if packed else None)
    with pytest.raises(UserError, match=f"has format {PLAN_FORMAT + 1}, and this .* Run heddle.ovn.install"):
        load_plan(context)
    with pytest.raises(UserError, match="installs a program that reads it"):
        keep_plan(plan_of(""), str(path), write=True)
    assert json.loads(path.read_text()) == later


def test_the_plan_of_a_snapshot_is_always_the_same():
    text = namespace("red") + layer2("red", "net", "10.0.0.0/24")
    first, _problems = decide(text)
    again, _problems = decide(text, first)
    again.revision = 7
    assert first.revision != again.revision
    assert plan_of(text)["digest"] == plan_of(text, again)["digest"]


def test_an_older_plan_does_not_replace_a_newer_one(tmp_path):
    path = tmp_path / "plan.json"
    plan = plan_of(namespace("red") + layer2("red", "net", "10.0.0.0/24"))
    keep_plan({**plan, "revision": 7}, str(path), write=True)
    with pytest.raises(UserError, match=r"is newer \(revision 7\) than this plan \(revision 6\)"):
        keep_plan({**plan_of(""), "revision": 6}, str(path), write=True)


def test_a_plan_that_was_changed_by_hand_is_replaced(tmp_path):
    path = tmp_path / "plan.json"
    plan = plan_of(namespace("red") + layer2("red", "net", "10.0.0.0/24"))
    keep_plan(plan, str(path), write=True)
    path.write_text(path.read_text().replace("10.0.0.0/24", "10.0.9.0/24"))
    assert keep_plan(plan, str(path), write=True).changed
    assert json.loads(path.read_text()) == plan


@pytest.mark.parametrize("text", ["", "[]", '{"node": 1}'])
def test_a_torn_file_of_the_host_is_replaced(tmp_path, text):
    path = tmp_path / "host.json"
    path.write_text(text)
    outcome = keep_host({"node": "n", "chassis": {}}, str(path), write=True)
    assert outcome.diff()
    assert json.loads(path.read_text()) == {"node": "n", "chassis": {}}


def test_full_disk_is_reported_and_the_stored_plan_is_kept(tmp_path, monkeypatch):
    path = tmp_path / "plan.json"
    keep_plan(plan_of(""), str(path), write=True)
    kept = path.read_bytes()

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"plan\.json cannot be written and stays as it is: No space left on device"):
        keep_plan(plan_of(namespace("red") + layer2("red", "net", "10.0.0.0/24")), str(path), write=True)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == kept


def test_leftover_of_a_cut_off_run_is_overwritten(tmp_path):
    path = tmp_path / "plan.json"
    (tmp_path / "plan.json.new").write_text("half of a plan")
    keep_plan(plan_of(""), str(path), write=True)
    assert list(tmp_path.iterdir()) == [path]
