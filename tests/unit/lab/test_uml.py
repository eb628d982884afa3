# SPDX-License-Identifier: Apache-2.0
"""Hosts of driver uml: where their memory is, how they are started, and when they are ready."""

import io
import os
import subprocess
from types import SimpleNamespace

import pytest

from lab import console, guest, uml
from lab.config import HOSTS, MACHINE_MAC, Lab, Network, host_named
from lab.errors import LabError
from lab.image import Image
from lab.stages import Stages


def room(monkeypatch, megabytes, noexec=()):
    """Directories with so much free room."""

    def about(path):
        flags = os.ST_NOEXEC if path in noexec else 0
        return SimpleNamespace(f_bavail=megabytes[path], f_frsize=guest.MEGABYTE, f_flag=flags)

    monkeypatch.setattr(os, "statvfs", about)
    monkeypatch.setattr(os.path, "isdir", lambda path: path in megabytes)
    monkeypatch.setattr(os, "access", lambda path, _mode: path in megabytes)


def test_memory_is_in_the_first_place_that_holds_it(monkeypatch):
    room(monkeypatch, {"/a": 4096, "/b": 9999})
    assert guest.memory_directory(4, ("/a", "/b")) == "/a"
    assert guest.memory_directory(5, ("/a", "/b")) == "/b"
    assert guest.memory_directory(1, (None, "/none", "/b")) == "/b"


def test_memory_cannot_be_where_nothing_may_be_executed(monkeypatch):
    room(monkeypatch, {"/a": 4096, "/b": 9999}, noexec=("/a",))
    assert guest.memory_directory(1, ("/a", "/b")) == "/b"


def test_no_room_for_memory(monkeypatch):
    room(monkeypatch, {"/dev/shm": 64})
    with pytest.raises(LabError) as error:
        guest.memory_directory(4, ("/dev/shm", "/gone"))
    assert str(error.value) == (
        "no place for the memory of 4 hosts, 4096 MB: /dev/shm has 64 MB; /gone is not a directory that this user may "
        "write to; set TMPDIR to a directory with that much room, on a tmpfs if possible"
    )


def driver(tmp_path, **settings):
    lab = Lab(tmp_path / "lab")
    lab.logs.mkdir(parents=True)
    runtime = tmp_path / "run"
    runtime.mkdir()
    return uml.Driver(lab, Network(), Image(tmp_path, "x"), runtime, {"uml": {"kernel": "k", **settings}})


def test_the_image_is_opened_without_a_lock_and_the_disk_with_one(tmp_path):
    one = driver(tmp_path)
    argv = guest.arguments(one.kernel, one.image, "node1", "initramfs", "disk", tmp_path, [(7, "02::1", 9100)])
    assert f"ubd0rc={one.image.squashfs}" in argv
    assert "ubd1=disk" in argv
    assert "vec0:transport=fd,fd=7,mac=02::1,mtu=9100,depth=64" in argv
    assert "ubd1r=disk" in guest.arguments(one.kernel, one.image, "probe", "initramfs", "r:disk", tmp_path)


def test_one_process_carries_ssh_to_every_host(tmp_path):
    ports = {host.name: 2000 + host.number for host in HOSTS}
    argv = driver(tmp_path, ports=ports)._management()
    for host in HOSTS:
        (user,) = [word for word in argv if f"hostfwd=tcp:127.0.0.1:{ports[host.name]}-198.18.0.15:22" in word]
        assert "restrict=on" in user
        assert any(f"{host.name}.management.switch" in word for word in argv)


def test_all_hosts_have_one_management_address(tmp_path):
    lab = Lab(tmp_path)
    for host in HOSTS:
        first = lab.host_files(host, Network(), "uml")["etc/segments"].splitlines()[0]
        assert first == f"eth0 {MACHINE_MAC} 1500 198.18.0.15/24"


def test_host_is_ready_when_it_reports_so_after_this_start(tmp_path):
    log = tmp_path / "log"
    log.write_text(f"{console.READY}\n")
    assert console.said_ready(log, 0)
    assert not console.said_ready(log, log.stat().st_size)


def test_a_host_that_ends_while_it_boots_is_quoted(tmp_path):
    one = driver(tmp_path)
    node = host_named("node1")
    with pytest.raises(LabError, match="node1 does not boot: Kernel panic; read its console in"), one.booting(node):
        one.console(node).write_text("booting\nKernel panic\x1b\n")


def test_a_management_process_that_ends_is_quoted(tmp_path):
    one = driver(tmp_path)
    (one.lab.logs / "management.log").write_text("Could not set up host forwarding rule\n")
    with pytest.raises(LabError, match="management process did not start: Could not set up host forwarding rule"):
        one._wait_for_socket(host_named("node1"), "management")


def test_unwritten_disk_is_sparse(tmp_path):
    source, target = tmp_path / "empty", tmp_path / "disk"
    with open(source, "wb") as disk:
        disk.truncate(1 << 30)
    uml.copy_sparse(source, target)
    assert target.stat().st_size == 1 << 30
    assert target.stat().st_blocks * 512 < 1 << 20


def test_init_scripts_are_valid_shell():
    for name in ("init", "probe"):
        subprocess.run(["sh", "-n", str(guest.FILES / name)], check=True)


@pytest.mark.parametrize(("library", "lines"), [(None, 1), ("clock.so", 0)])
def test_a_machine_without_a_compiler_is_reported(tmp_path, monkeypatch, library, lines):
    one = driver(tmp_path)
    monkeypatch.setattr(uml.kernel.Kernel, "require", lambda _self: None)
    monkeypatch.setattr(uml.kernel_probe, "require", lambda *_arguments: None)
    monkeypatch.setattr(guest, "memory_directory", lambda _hosts: "/dev/shm")
    monkeypatch.setattr(one, "connected", lambda: True)
    monkeypatch.setattr(one, "running", lambda _host: True)
    monkeypatch.setattr(uml.clock, "ensure", lambda _cache: library)
    stream = io.StringIO()
    one.prepare(Stages(stream))
    assert stream.getvalue().count("install gcc") == stream.getvalue().count("\n") == lines
