# SPDX-License-Identifier: Apache-2.0
"""The limit of memory mappings: raised for large hosts of driver uml only, and reported where that is not allowed."""

import io

import pytest

from lab import mappings
from lab.stages import Stages


@pytest.fixture
def limit(tmp_path, monkeypatch):
    monkeypatch.setattr(mappings, "LIMIT", tmp_path / "max_map_count")
    mappings.LIMIT.write_text("65530\n")
    return mappings.LIMIT


def printed():
    stream = io.StringIO()
    mappings.raise_limit(Stages(stream))
    return stream.getvalue()


def test_hosts_of_the_usual_size_leave_it_as_it_is(limit, monkeypatch):
    monkeypatch.delenv("LAB_MEMORY_MB", raising=False)
    assert printed() == ""
    assert limit.read_text() == "65530\n"


def test_large_hosts_raise_it_once(limit, monkeypatch):
    monkeypatch.setenv("LAB_MEMORY_MB", "5000")
    assert "vm.max_map_count of this machine is 1048576" in printed()
    assert limit.read_text() == "1048576\n"
    assert printed() == ""


def test_a_user_who_may_not_raise_it_reads_what_is_needed(limit, monkeypatch):
    monkeypatch.setenv("LAB_MEMORY_MB", "5000")

    def refused(_path, _text):
        raise PermissionError

    monkeypatch.setattr(type(limit), "write_text", refused)
    assert "run as root: sysctl vm.max_map_count=1048576" in printed()
