# SPDX-License-Identifier: Apache-2.0
"""Waiting for descriptors of any number."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import time

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.sockets.readable import milliseconds, readable
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.stream import Stream


@pytest.fixture
def pair():
    """Both ends of a connection, one of them with a number that select(2) cannot take."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 3000:
        pytest.skip("this user may not have that many descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (3000, before[1]))
    near, far = socket.socketpair()
    high = socket.socket(fileno=fcntl.fcntl(near, fcntl.F_DUPFD_CLOEXEC, 2000))
    yield high, far
    for one in (near, far, high):
        one.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_descriptor_may_have_any_number(pair):
    high, far = pair
    reader, writer = os.pipe()
    try:
        assert readable([high, reader], 0) == []
        far.send(b"1")
        assert readable([high, reader], 10) == [high]
        os.write(writer, b"1")
        assert set(readable([high, reader], 10)) == {high, reader}
    finally:
        os.close(reader)
        os.close(writer)


def test_so_may_a_connection_of_a_database(pair):
    high, far = pair
    stream = Stream(high)
    assert stream.wait(0) == (False, False)
    assert stream.wait(10, write=True) == (False, True)
    far.send(b"1")
    assert stream.wait(10) == (True, False)
    assert stream.wait(10, write=True) == (True, True)
    while stream.send(memoryview(b"1" * 65536)):
        pass
    assert stream.wait(0, write=True) == (True, False)
    far.close()
    assert stream.wait(10)[0]


def test_a_short_time_is_waited_and_not_polled():
    assert [milliseconds(one) for one in (-1, 0, 0.0001, 0.1, 2)] == [0, 0, 1, 100, 2000]
    began = time.monotonic()
    assert readable([], 0.01) == []
    assert time.monotonic() - began >= 0.009
