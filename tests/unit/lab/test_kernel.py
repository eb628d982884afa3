# SPDX-License-Identifier: Apache-2.0
"""The kernel of driver uml: sources, cache, and errors with their remedies."""

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from lab import kernel, kernel_probe, kernel_source
from lab.config import PROJECT
from lab.errors import LabError

CONSOLE = "".join(f"feature {name} 0\r\n" for name in kernel_probe.FEATURES) + "probe-done\r\nreboot: Power down\n"


def put(cache, name, wanted, complete=True):
    """A kernel in the cache, as far as its files go."""
    found = kernel.Kernel(cache, name)
    found.modules.mkdir(parents=True)
    found.facts.write_text(json.dumps({"wanted": wanted, "release": "7.2.0"}))
    if complete:
        found.binary.touch()
    return found


def quiet(_text):
    pass


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["linux-source-6.12", "linux-source-7.1"], None),
        (["linux-source-7.3", "linux-source-7.2"], "linux-source-7.2"),
        (["linux-source-7.10", "linux-source-7.9", "linux-source-6.12"], "linux-source-7.9"),
        (["linux-source-8.0"], "linux-source-8.0"),
        (["linux-source", "linux-source-7.2-rt"], None),
        ([], None),
    ],
)
def test_the_sources_nearest_to_the_tested_ones(names, chosen):
    assert kernel_source.choose(names) == chosen


def test_private_apt_uses_only_the_mirror_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_source.sources, "apt_options", lambda: ['Acquire::http::Proxy "http://proxy.example";'])
    environment = kernel_source.private_apt(tmp_path / "apt", "deb http://mirror.example/debian sid main")
    text = (tmp_path / "apt/apt.conf").read_text()
    assert environment["APT_CONFIG"] == str(tmp_path / "apt/apt.conf")
    assert 'Acquire::http::Proxy "http://proxy.example";' in text
    for place in ("State::lists", "Cache", "Etc::sourcelist"):
        assert f'Dir::{place} "{tmp_path}/apt/' in text
    for place in ("main", "parts", "sourceparts", "preferences", "preferencesparts"):
        assert f'Dir::Etc::{place} "/dev/null";' in text


def test_a_kernel_of_another_configuration_is_stale(tmp_path):
    put(tmp_path, "stale", "another digest")
    assert kernel.cached(tmp_path) is None


def test_a_kernel_that_is_not_complete_does_not_count(tmp_path):
    put(tmp_path, "half", kernel.wanted(), complete=False)
    (tmp_path / "kernel-torn").mkdir()
    (tmp_path / "kernel-torn/kernel.json").write_text("{")
    assert kernel.cached(tmp_path) is None


def test_the_newest_kernel_of_this_configuration_is_used(tmp_path):
    for age, name in ((100, "new"), (200, "old")):
        facts = put(tmp_path, name, kernel.wanted()).facts
        os.utime(facts, (1e9 - age, 1e9 - age))
    assert kernel.cached(tmp_path).name == "new"
    assert kernel.ensure(tmp_path, None, None)[1] is False


def test_missing_kernel_of_a_running_lab(tmp_path):
    with pytest.raises(
        LabError, match=r"the kernel x, which this lab's hosts run, is not in .*; run: python -m lab down"
    ):
        kernel.Kernel(tmp_path, "x").require()


def test_its_name_follows_every_input(monkeypatch):
    names = {kernel.name_of("1", "gcc"), kernel.name_of("2", "gcc"), kernel.name_of("1", "clang")}
    monkeypatch.setattr(kernel, "FORMAT", kernel.FORMAT + 1)
    assert len(names | {kernel.name_of("1", "gcc")}) == 4


def test_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("gcc", "flex") else f"/usr/bin/{name}")
    with pytest.raises(LabError, match="without gcc, flex; run: python -m lab packages --driver uml"):
        kernel.ensure(tmp_path, None, quiet)


def test_no_space(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=300 << 20))
    with pytest.raises(LabError, match=r"takes 2048 MB in .*, which has 300 MB; make room there, or set TMPDIR"):
        kernel.require_space(tmp_path)


def test_a_killed_build_leaves_nothing_beyond_the_next_one(tmp_path, monkeypatch):
    """As a build does that ends by SIGKILL, which no program can handle."""
    monkeypatch.delenv("TMPDIR", raising=False)
    cache = tmp_path / "cache"
    program = (
        "import os, pathlib, sys; from lab import kernel\n"
        "kernel.require_tools = lambda: None\n"
        "kernel.require_space = lambda _directory: None\n"
        "kernel.kernel_source.find = lambda *_: os.kill(os.getpid(), 9)\n"
        "kernel.ensure(pathlib.Path(sys.argv[1]), None, None)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    for _ in range(2):
        killed = subprocess.run([sys.executable, "-c", program, str(cache)], env=environment, check=False)
        assert killed.returncode == -9
        (left,) = (path for path in cache.iterdir() if path.is_dir())
        assert left.name.startswith("heddle-building-kernel-"), "what it left, on the disk of the cache"
        (cache / f".kernel-{kernel.wanted()}.x").mkdir()


def test_no_sources(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_APT_URI", f"file:{tmp_path}/nothing")
    with pytest.raises(LabError, match=r"no sources for .* on file:.*trixie-backports: .*sid: .*; set LAB_APT_URI"):
        kernel_source.find(tmp_path, quiet)


def test_rejected_kernel_options():
    fragment = "# A comment\nCONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\n"
    assert kernel.missing_options(fragment, "CONFIG_A=y\n# CONFIG_B is not set\n") == ["CONFIG_B=y"]


def test_every_option_is_named_once():
    lines = [line for line in kernel.CONFIG.read_text().splitlines() if line.startswith("CONFIG_")]
    assert len(lines) == len(set(lines)) > 100


def test_progress_counts_what_was_compiled(tmp_path):
    said = []
    script = "print('  CC      a.o'); print('  GEN     b'); print('  CC      c.o')"
    kernel.compile_all([sys.executable, "-c", script], tmp_path / "log", said.append)
    assert [line.split(" of")[0] for line in said] == ["compiles object 1", "compiles object 2"]


def test_a_compiler_that_fails_is_quoted(tmp_path):
    script = "print('a.c:1: error: no such thing'); raise SystemExit(2)"
    with pytest.raises(LabError, match=r"does not compile: a.c:1: error: no such thing; use DRIVER=vm"):
        kernel.compile_all([sys.executable, "-c", script], tmp_path / "log", quiet)


def test_outer_make_does_not_affect_the_build(monkeypatch):
    for name in ("MAKEFLAGS", "MAKELEVEL", "ARCH", "CFLAGS", "KCFLAGS", "CROSS_COMPILE", "O", "KBUILD_OUTPUT"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("MADE_UP", "kept")
    found = kernel.environment()
    assert "x" not in found.values()
    assert found["MADE_UP"] == "kept"


def test_a_probe_that_passes():
    kernel_probe.evaluate(CONSOLE, True)


@pytest.mark.parametrize(
    ("console", "ended", "words"),
    [
        ("", True, "it ended early: it wrote nothing"),
        ("booting\nKernel panic - not syncing\n", True, "it ended early: Kernel panic - not syncing"),
        ("booting\n", False, f"it did not end within {kernel_probe.LIMIT} s: booting"),
        (CONSOLE.replace("feature vrf 0", "feature vrf 2"), True, "lacks vrf; use DRIVER=vm or DRIVER=nspawn"),
        (CONSOLE.replace("feature netem 0", ""), True, "lacks netem"),
    ],
)
def test_a_probe_that_fails(console, ended, words):
    with pytest.raises(LabError, match=words):
        kernel_probe.evaluate(console, ended)
