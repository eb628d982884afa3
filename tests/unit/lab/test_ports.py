# SPDX-License-Identifier: Apache-2.0
"""Ports for ssh of the hosts: each host has one that no other program listens on."""

import pytest

from lab import ports


@pytest.fixture
def listener():
    """A port that a program listens on."""
    with ports.socket.socket() as end:
        end.bind(("127.0.0.1", 0))
        end.listen()
        yield end.getsockname()[1]


def test_port_in_use_is_detected(listener):
    assert ports.taken(listener)
    assert not ports.taken(port := ports.free()), port


def test_a_free_port_is_none_that_the_kernel_gives_to_other_programs(tmp_path, monkeypatch):
    """Between the choice of a port and the program that listens there, tests beside it open many sockets."""
    monkeypatch.setattr(ports, "RANGE", tmp_path / "range")
    ports.RANGE.write_text("21000\t65535\n")
    assert all(20000 <= ports.free() < 21000 for _number in range(100))


def test_the_kernel_reports_its_range(listener):
    lowest, highest = map(int, ports.RANGE.read_text().split())
    assert lowest <= listener <= highest


def test_a_port_is_found_where_the_kernel_gives_all(tmp_path, monkeypatch):
    monkeypatch.setattr(ports, "RANGE", tmp_path / "range")
    ports.RANGE.write_text("1024\t65535\n")
    assert not ports.taken(ports.free())


def test_port_that_is_taken_is_replaced_and_others_stay(listener):
    free = ports.free()
    chosen = {"node1": listener, "node2": free}
    ports.choose(chosen, ["node1", "node2"])
    assert chosen["node1"] not in (listener, free) and chosen["node2"] == free


def test_hosts_have_different_ports():
    chosen = {"node1": (port := ports.free()), "node2": port}
    ports.choose(chosen, ["node1", "node2", "node3"])
    assert len(set(chosen.values())) == 3
