# SPDX-License-Identifier: Apache-2.0
"""Byte code of programs in archives is kept, and never used when it differs from the source."""

import errno
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.common.processes import bytecode_cache
from ansible_collections.heddle.ovn.plugins.module_utils.common.processes.bytecode_cache import Compiled, trusted

SOURCES = {
    "program/__init__.py": "",
    "program/inner/__init__.py": "WORD = 'inner'\n",
    "program/inner/counted.py": "from . import WORD\nVALUE = 1\n\n\ndef fail():\n    raise ValueError(WORD)\n",
}


def archive_of(path: Path, **changed: str) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in SOURCES.items():
            archive.writestr(name, changed.get(Path(name).stem, text))
    return str(path)


def loaded(archive: str, directory: Path, *, keep: bool = True) -> tuple[dict, list[str]]:
    """Run the program as a process would; return what it has, and what had to be compiled."""
    finder = Compiled(archive, "program", directory)
    spec = finder.find_spec("program.inner.counted")
    found = {"__package__": "program.inner", "__name__": spec.name}
    sys.meta_path.insert(0, finder)
    try:
        exec(finder.get_code(spec.name), found)
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[0] == "program"]:
            del sys.modules[name]
    compiled_now = sorted(finder._fresh)
    if keep:
        finder.keep()
    return found, compiled_now


ALL = ["program", "program.inner", "program.inner.counted"]


def test_a_second_process_compiles_nothing(tmp_path):
    archive = archive_of(tmp_path / "a.zip")
    assert loaded(archive, tmp_path / "kept")[1] == ALL
    found, again = loaded(archive, tmp_path / "kept")
    assert again == []
    assert found["VALUE"] == 1
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700


def test_a_source_that_changed_is_compiled_again(tmp_path):
    loaded(archive_of(tmp_path / "a.zip"), tmp_path / "kept")
    found, again = loaded(archive_of(tmp_path / "b.zip", counted="VALUE = 2\n"), tmp_path / "kept")
    assert (found["VALUE"], again) == (2, ["program.inner.counted"])


@pytest.mark.parametrize(
    "damage", [lambda code: b"", lambda code: code[:40], lambda code: code[:-1] + bytes([code[-1] ^ 1])]
)
def test_damaged_byte_code_is_compiled_again(tmp_path, damage):
    archive = archive_of(tmp_path / "a.zip")
    loaded(archive, tmp_path / "kept")
    for path in (tmp_path / "kept").iterdir():
        path.write_bytes(damage(path.read_bytes()))
    found, again = loaded(archive, tmp_path / "kept")
    assert (found["VALUE"], again) == (1, ALL)
    assert loaded(archive, tmp_path / "kept")[1] == []


def test_cache_is_off_by_default(tmp_path):
    loaded(archive_of(tmp_path / "a.zip"), tmp_path / "kept", keep=False)
    assert not (tmp_path / "kept").exists()


def test_unwritable_cache_directory_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    assert loaded(archive_of(tmp_path / "a.zip"), tmp_path / "file" / "kept")[0]["VALUE"] == 1


def test_full_disk_gets_no_files(tmp_path, monkeypatch):
    def full(_source, _target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(bytecode_cache.os, "replace", full)
    assert loaded(archive_of(tmp_path / "a.zip"), tmp_path / "kept")[0]["VALUE"] == 1
    assert list((tmp_path / "kept").iterdir()) == []


def test_only_own_cache_directory_is_used(tmp_path):
    assert trusted(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    assert not trusted(tmp_path / "link")
    assert not trusted(tmp_path / "missing")
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    assert not trusted(open_to_all)
    archive = archive_of(tmp_path / "a.zip")
    loaded(archive, open_to_all)
    assert list(open_to_all.iterdir()) == []


def test_errors_show_their_lines(tmp_path):
    finder = Compiled(archive_of(tmp_path / "a.zip"), "program", tmp_path / "kept")
    assert "raise ValueError" in finder.get_source("program.inner.counted")
    assert finder.find_spec("program.missing") is None
    assert finder.find_spec("json") is None


def test_heddle_host_runs_from_the_cache(tmp_path):
    """A process with a home of its own, because the directory is the user's."""
    package = Path(bytecode_cache.__file__).parents[2]
    script = (
        "import pwd, sys\n"
        "original = pwd.getpwuid\n"
        f"pwd.getpwuid = lambda user: type('user', (), {{'pw_dir': {str(tmp_path)!r}}})\n"
        f"sys.path.insert(0, {str(tmp_path / 'program.zip')!r})\n"
        "from heddle.common.processes import bytecode_cache\n"
        "from heddle.agent import cli\n"
        "print(len(bytecode_cache._FOUND._fresh))\n"
        "bytecode_cache.keep()\n"
    )
    with zipfile.ZipFile(tmp_path / "program.zip", "w") as archive:
        archive.writestr("heddle/__init__.py", "")
        for path in package.rglob("*.py"):
            archive.write(path, f"heddle/{path.relative_to(package)}")
    environment = {**os.environ, "PYTHONPATH": ""}
    counts = [
        int(subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True).stdout)
        for _round in range(2)
    ]
    assert counts[0] > 50
    assert counts[1] == 0


def test_home_directory_that_cannot_be_read_is_no_error(tmp_path, monkeypatch):
    """Services run as root without its rights over files."""

    def denied(_path):
        raise PermissionError(errno.EACCES, "Permission denied")

    assert bytecode_cache._may_be_used(tmp_path / "missing")
    assert bytecode_cache._may_be_used(tmp_path)
    monkeypatch.setattr(Path, "lstat", denied)
    assert not bytecode_cache._may_be_used(tmp_path)
