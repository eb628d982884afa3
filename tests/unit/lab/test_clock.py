# SPDX-License-Identifier: Apache-2.0
"""The clock that hosts of driver uml preload: what programs read from it, and machines without a compiler."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from lab import clock

READ = """
import errno, json, threading, time
def read(number=2000):
    return [time.clock_gettime_ns(time.CLOCK_MONOTONIC) for _ in range(number)]
values = read()
time.sleep(0.01)
later = read(1)[0]
other = []
thread = threading.Thread(target=lambda: other.extend(read(1)))
thread.start(); thread.join()
try:
    time.clock_gettime(99)
    unknown = None
except OSError as error:
    unknown = error.errno
print(json.dumps({"values": values, "later": later, "other": other[0], "unknown": unknown,
                  "wall": time.clock_gettime_ns(time.CLOCK_REALTIME),
                  "processor": time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)}))
"""


@pytest.fixture
def library(tmp_path):
    if shutil.which(clock.COMPILER) is None:
        pytest.skip("there is no compiler, which driver uml needs for its kernel, too")
    return clock.ensure(tmp_path)


def test_a_program_reads_a_clock_that_advances(library):
    monotonic, wall = time.monotonic_ns(), time.time_ns()
    done = subprocess.run(
        [sys.executable, "-c", READ], env={**os.environ, "LD_PRELOAD": str(library)}, capture_output=True, check=True
    )
    found = json.loads(done.stdout)
    values = found["values"]
    assert monotonic <= values[0] + 1_000_000
    assert values == sorted(values)
    assert len({*values}) < len(values)
    assert found["later"] - values[-1] >= 9_000_000
    assert found["other"] >= found["later"] - 1_000_000
    assert found["wall"] >= wall - 1_000_000
    assert found["processor"] > 0
    assert found["unknown"] == 22
    assert not done.stderr


def test_the_library_is_built_once(library, tmp_path, monkeypatch):
    monkeypatch.setattr(clock, "run", lambda *_arguments: pytest.fail("it was built again"))
    assert clock.ensure(tmp_path) == library
    assert clock.files(tmp_path) == {clock.LIBRARY: library.read_bytes(), clock.PRELOAD: f"/{clock.LIBRARY}\n"}


def test_hosts_run_without_it_where_no_compiler_is(tmp_path, monkeypatch):
    monkeypatch.setattr(clock.shutil, "which", lambda _name: None)
    assert clock.ensure(tmp_path) is None
    assert clock.files(tmp_path) == {}
