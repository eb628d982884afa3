# SPDX-License-Identifier: Apache-2.0
"""A minimal Debian system in namespaces of its own, with nothing of the machine around but its kernel and network.

Its processes and mounts live in a process and a mount namespace that end with this program, however it ends. What is
left then, a directory and empty control groups, is removed by `System.close`, or by the next run.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lab import image, scratch, sources
from lab.config import Lab
from lab.errors import LabError

RELEASES = {"bookworm": "Debian 12", "trixie": "Debian 13"}
# What README.md presumes.
PRESUMED = ("git", "make")
SPACE = 8 << 30
CLEAN = {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
# How this machine reaches its package registries, and where a lab may be.
CARRIED = {"http_proxy", "https_proxy", "no_proxy", "all_proxy", "lab_network_prefix", "lab_network_prefix6"}
PIP_KEYS = {"index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout", "retries", "cert"}
CERTIFICATES = "etc/registry-certificates.pem"
# Runs as the first process of the namespaces: makes the directory $1 the root, mounts what a booted system has, and
# waits for the end of its standard input. The further arguments are directories to bind-mount, each as SOURCE TARGET.
ENTER = """
set -euo pipefail
mount --bind "$1" "$1"
cd "$1"
shift
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 dev dev
mkdir dev/net dev/shm dev/pts
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts dev/pts
mount -t tmpfs shm dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s /proc/self/fd/0 dev/stdin
ln -s /proc/self/fd/1 dev/stdout
ln -s /proc/self/fd/2 dev/stderr
for node in full null random tty urandom zero kvm net/tun; do
    if [ -c "/dev/$node" ]; then touch "dev/$node"; mount --bind "/dev/$node" "dev/$node"; fi
done
while [ $# -gt 0 ]; do mkdir -p "./$2"; mount --bind "$1" "./$2"; shift 2; done
hostname fresh
mkdir .outside
pivot_root . .outside
cd /
umount -l .outside
rmdir .outside
echo ready
exec bash -c 'read -r _ || true'
"""


def pip_settings(listed: str) -> dict[str, str]:
    """Return the lines of `pip config list` for access to the package index; directories are left out."""
    found = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        key = name.rpartition(".")[2]
        if key in PIP_KEYS:
            words = value.strip("'\"").replace("\\n", " ").split()
            reached = [word for word in words if not word.startswith("file:")]
            if reached:
                found[key] = " ".join(reached)
    return found


def environment(ours) -> dict[str, str]:
    """Return the environment of a new login of root, and how registries are reached from here."""
    return CLEAN | {name: value for name, value in ours.items() if name.lower() in CARRIED}


@contextlib.contextmanager
def place():
    """Yield an empty directory for a system and remove it; those of runs that were killed are removed as well."""
    base = Path(os.environ.get("TMPDIR") or scratch.PUBLIC)
    with scratch.directory(base, "heddle-fresh-") as directory:
        free = shutil.disk_usage(base).free
        if free < SPACE:
            raise LabError(
                f"{base} has {free / 1e9:.1f} GB left and a fresh system needs {SPACE / 1e9:.1f} GB",
                "make room, or set TMPDIR to a directory with more",
            )
        yield directory


def bootstrap(release: str, root: Path) -> None:
    """Install a minimal Debian into a directory that does not exist yet."""
    source = sources.choose(sources.read_sources())
    include = [*PRESUMED, *(["ca-certificates"] if source.uri.startswith("https:") else [])]
    argv = [
        # mmdebstrap mounts file systems, which have to end with it.
        "unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc",
        "mmdebstrap", "--mode=root", "--quiet", "--variant=minbase", f"--include={','.join(include)}",
        '--aptopt=Acquire::Languages "none"', "--dpkgopt=force-unsafe-io",
        *(f"--aptopt={option}" for option in sources.apt_options()),
        release, str(root), source.line(release),
    ]  # fmt: skip
    image.run(argv, f"install {RELEASES[release]}", stdin=subprocess.DEVNULL)


def connect(root: Path) -> None:
    """Let the system reach the package registries as this machine does: names, certificates, pip's index."""
    for name in ("resolv.conf", "hosts"):
        shutil.copyfile(f"/etc/{name}", root / "etc" / name)
    own = Path("/usr/local/share/ca-certificates")
    if own.is_dir():
        shutil.copytree(own, root / str(own)[1:], dirs_exist_ok=True)
    listed = image.run([sys.executable, "-m", "pip", "config", "list"], "read pip's settings").stdout.decode()
    settings = pip_settings(listed)
    if "cert" in settings:
        shutil.copyfile(settings["cert"], root / CERTIFICATES)
        settings["cert"] = f"/{CERTIFICATES}"
    if settings:
        written = configparser.RawConfigParser()
        written["global"] = settings
        with open(root / "etc/pip.conf", "w", encoding="utf-8") as file:
            written.write(file)


class System:
    """A fresh system with a clone of the project at `clone`, ready to run commands."""

    def __init__(self, release: str, directory: Path, project: Path, shared: dict[Path, str]) -> None:
        self.root = directory / "root"
        # The name is new in every run, and with it that of the lab's control groups.
        self.clone = f"/root/{directory.name}"
        bootstrap(release, self.root)
        connect(self.root)
        image.run(
            ["git", "clone", "--quiet", "--no-hardlinks", str(project), f"{self.root}{self.clone}"],
            "clone the project",
        )
        argv = ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--uts", "--ipc"]
        argv += ["bash", "-c", ENTER, "enter", str(self.root)]
        argv += [str(word) for pair in shared.items() for word in pair]
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=CLEAN,
            cwd="/",
            start_new_session=True,
        )
        if self.process.stdout.readline() != b"ready\n":
            said = self.process.communicate()[1].decode(errors="replace").strip()
            raise LabError(
                f"cannot make namespaces with a root of their own: {' | '.join(said.splitlines()[-3:])}",
                "run this as root of a machine or container that may mount",
            )

    def command(self, *words: str) -> list[str]:
        """The argument vector that runs a command in the clone, with the environment of a new login."""
        where = f"/proc/{self.process.pid}/ns"
        argv = ["nsenter", f"--mount={where}/mnt", f"--pid={where}/pid_for_children"]
        argv += [f"--uts={where}/uts", f"--ipc={where}/ipc"]
        clean = [f"{name}={value}" for name, value in environment(os.environ).items()]
        return [*argv, "/usr/bin/env", "-i", *clean, "sh", "-c", 'cd "$0" && exec "$@"', self.clone, *words]

    def close(self) -> None:
        """End all processes, and remove the control groups that a lab in there may have left."""
        # The first process ends with its input, and the kernel ends all others of its namespace.
        self.process.communicate()
        key = Lab(f"{self.clone}/.lab").key
        script = (
            'mount -t cgroup2 cgroup2 "$1"; if [ -d "$1/$2" ]; then find "$1/$2" -depth -type d -exec rmdir {} +; fi'
        )
        argv = ["unshare", "--mount", "--propagation=private", "sh", "-euc", script, "sh"]
        image.run([*argv, str(self.root / "mnt"), f"heddle-lab-{key}"], "remove control groups")


@contextlib.contextmanager
def fresh(release: str, project: Path, shared: dict[Path, str]):
    """Yield a system; nothing of it is left afterwards."""
    with place() as directory:
        system = System(release, directory, project, shared)
        try:
            yield system
        finally:
            system.close()
