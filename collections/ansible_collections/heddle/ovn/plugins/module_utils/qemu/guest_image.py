# SPDX-License-Identifier: Apache-2.0
"""The kernel and the initramfs that virtual machines boot, built from the host's own packages.

The guest is busybox, the modules of its NIC, and two scripts. The image is rebuilt when one of these changed.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import stat
from pathlib import Path

from ..common.change import Change, Outcome
from ..common.errors import HypervisorError
from ..common.files.atomic_file import replace_file
from .initramfs import initramfs

SUBSTRATE = "guest"
NIC = "virtio_net"
MODULES = Path("/usr/lib/modules")
BUSYBOX = (Path("/usr/bin/busybox"), Path("/bin/busybox"))


class GuestImageError(HypervisorError):
    """The host lacks a component of the guest image; the text says what to install."""


def reconcile_guest_image(directory: str, scripts: str, *, boot: str = "/boot", write: bool) -> Outcome:
    """Build the guest image in `directory` from this host's kernel; `scripts` holds `init` and `lease`.

    Raises GuestImageError when there is no kernel or no static busybox.
    """
    kernel, release = _newest_kernel(Path(boot))
    files = _files(release, Path(scripts))
    summary = hashlib.sha256(kernel.read_bytes())
    for path, (mode, content) in sorted(files.items()):
        summary.update(f"{path}\0{mode}\0{len(content)}\0".encode() + content)
    wanted = {"release": release, "digest": summary.hexdigest()[:16]}
    target = Path(directory)
    existing = _read_contents(target)
    if existing == wanted:
        return Outcome()
    if write:
        _build(target, kernel, files, wanted)
    return Outcome((Change(SUBSTRATE, "update" if existing else "create", "image", directory, "", existing, wanted),))


def _read_contents(directory: Path) -> dict:
    try:
        release, digest = (directory / "contents").read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return {}
    return {"release": release, "digest": digest}


def _build(directory: Path, kernel: Path, files: dict, wanted: dict) -> None:
    """Build the image and write `contents` last: an interrupted build has none, and is repeated."""
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    (directory / "contents").unlink(missing_ok=True)
    for name, content in (("kernel", kernel.read_bytes()), ("initramfs", initramfs(files))):
        replace_file(directory / name, content, mode=0o644)
    (directory / "contents").write_text(f"{wanted['release']} {wanted['digest']}\n", encoding="utf-8")


def _newest_kernel(boot: Path) -> tuple[Path, str]:
    def age(path: Path) -> list:
        return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]

    found = sorted(boot.glob("vmlinuz-*"), key=age)
    for kernel in reversed(found):
        release = kernel.name.removeprefix("vmlinuz-")
        if (MODULES / release).is_dir():
            return kernel, release
    raise GuestImageError(f"there is no kernel with its modules in {boot}; install linux-image-cloud-amd64")


def _files(release: str, scripts: Path) -> dict[str, tuple[int, bytes]]:
    busybox = next((path for path in BUSYBOX if path.exists()), None)
    if busybox is None:
        raise GuestImageError("there is no busybox; install busybox-static")
    files = {"bin/busybox": (stat.S_IFREG | 0o755, busybox.read_bytes())}
    for name in ("init", "lease"):
        files[name] = (stat.S_IFREG | 0o755, (scripts / name).read_bytes())
    files["bin/sh"] = (stat.S_IFLNK | 0o777, b"busybox")
    order = _needed_modules(release)
    for path in order:
        files[f"modules/{path.name.removesuffix('.xz')}"] = (stat.S_IFREG | 0o644, _content(path))
    names = "".join(f"{path.name.removesuffix('.xz')}\n" for path in order)
    files["modules/order"] = (stat.S_IFREG | 0o644, names.encode())
    return files


def _needed_modules(release: str) -> list[Path]:
    """Return the files of the NIC's module and of its dependencies, in load order (modules.dep(5)).

    A module that is built into the kernel has no file.
    """
    base = MODULES / release
    for line in (base / "modules.dep").read_text(encoding="utf-8").splitlines():
        path, _colon, needs = line.partition(":")
        if re.fullmatch(rf"{NIC}\.ko(\.xz)?", os.path.basename(path)):
            return [base / name for name in [*reversed(needs.split()), path]]
    if f"/{NIC}.ko" in (base / "modules.builtin").read_text(encoding="utf-8"):
        return []
    raise GuestImageError(f"kernel {release} has no module {NIC}; install linux-image-cloud-amd64")


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data
