# SPDX-License-Identifier: Apache-2.0
"""What virtual machines boot, built of a host that is a directory."""

from __future__ import annotations

import gzip
import lzma

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.qemu import guest_image as engine
from ansible_collections.heddle.ovn.plugins.module_utils.qemu.initramfs import initramfs
from tests.module_entry import ROOT, run_module


def unpacked(data: bytes) -> dict[str, tuple[int, bytes]]:
    """Read a `newc` archive as the kernel does."""
    data, position, found = gzip.decompress(data), 0, {}
    while True:
        assert data[position : position + 6] == b"070701"
        fields = [int(data[position + 6 + 8 * place : position + 14 + 8 * place], 16) for place in range(13)]
        name_end = position + 110 + fields[11]
        name = data[position + 110 : name_end - 1].decode()
        start = (name_end + 3) & ~3
        if name == "TRAILER!!!":
            return found
        found[name] = (fields[1], data[start : start + fields[6]])
        position = (start + fields[6] + 3) & ~3


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host with two kernels, of which only the older one has its modules."""
    for release in ("6.9.0-1-cloud-amd64", "6.12.3-1-cloud-amd64", "6.13.0-1-cloud-amd64"):
        (tmp_path / "boot").mkdir(exist_ok=True)
        (tmp_path / "boot" / f"vmlinuz-{release}").write_bytes(release.encode())
    for release in ("6.9.0-1-cloud-amd64", "6.12.3-1-cloud-amd64"):
        modules = tmp_path / "modules" / release
        modules.mkdir(parents=True)
        (modules / "modules.dep").write_text(
            "kernel/virtio_network_other.ko:\nkernel/virtio_net.ko.xz: kernel/net_failover.ko kernel/failover.ko\n"
        )
        (modules / "modules.builtin").write_text("")
        (modules / "kernel").mkdir()
        (modules / "kernel" / "virtio_net.ko.xz").write_bytes(lzma.compress(b"nic"))
        (modules / "kernel" / "net_failover.ko").write_bytes(b"second")
        (modules / "kernel" / "failover.ko").write_bytes(b"first")
    (tmp_path / "busybox").write_bytes(b"busybox")
    for name in ("init", "lease"):
        (tmp_path / name).write_text(f"#!/bin/sh\n# {name}\n")
    monkeypatch.setattr(engine, "MODULES", tmp_path / "modules")
    monkeypatch.setattr(engine, "BUSYBOX", (tmp_path / "busybox",))
    return tmp_path


def build(host, *, write=True):
    return engine.reconcile_guest_image(
        str(host / "guest"), str(host), boot=str(host / "boot"), write=write
    )  # fmt: skip


def test_image_is_built_once_from_the_newest_kernel_with_modules(host):
    announced = build(host, write=False)
    assert not (host / "guest").exists()
    assert build(host) == announced
    assert announced.changes[0].after["release"] == "6.12.3-1-cloud-amd64"
    assert (host / "guest" / "kernel").read_text() == "6.12.3-1-cloud-amd64"
    assert not build(host).changed

    files = unpacked((host / "guest" / "initramfs").read_bytes())
    assert files["modules/order"][1].split() == [b"failover.ko", b"net_failover.ko", b"virtio_net.ko"]
    assert files["modules/virtio_net.ko"] == (0o100644, b"nic")
    assert files["init"] == (0o100755, b"#!/bin/sh\n# init\n")
    assert files["bin/sh"] == (0o120777, b"busybox")
    assert files["bin"] == (0o040755, b"")


@pytest.mark.parametrize("change", ["init", "busybox", "guest/contents"])
def test_image_is_rebuilt_after_a_change_or_a_cut_off_build(host, change):
    build(host)
    (host / change).write_text("other")
    assert build(host).changed
    assert not build(host).changed


@pytest.mark.parametrize(
    ("missing", "remedy"), [("boot", "install linux-image"), ("busybox", "install busybox-static")]
)
def test_missing_parts_are_named(host, missing, remedy):
    if missing == "boot":
        for kernel in (host / "boot").iterdir():
            kernel.unlink()
    else:
        (host / missing).unlink()
    with pytest.raises(engine.GuestImageError, match=remedy):
        build(host, write=False)


def test_equal_files_give_equal_bytes():
    files = {"a/b": (0o100644, b"xyz"), "init": (0o100755, b"")}
    assert initramfs(files) == initramfs(dict(reversed(files.items())))
    assert unpacked(initramfs(files)) == {"a": (0o040755, b""), **files}


def test_module_builds_at_the_path_of_the_unit(tmp_path):
    unit = (ROOT / "roles" / "hypervisor" / "files" / "heddle-vm@.service").read_text()
    given = run_module("guest_image", tmp_path)["invocation"]["module_args"]
    for name in ("kernel", "initramfs"):
        assert f" {given['path']}/{name} " in unit
