# SPDX-License-Identifier: Apache-2.0
"""The kernel of driver `uml`: User Mode Linux from Debian's linux-source, built once per digest of its inputs.

No kernel that Debian packages as user-mode-linux has all that hosts need (nft NAT, conntrack zones), and those before
7.x do not run on processors with AMX.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess

from lab import guest, kernel_source, scratch
from lab.errors import LabError
from lab.image import locked, replacing, run

CONFIG = guest.FILES / "kernel-config"
TOOLS = ("gcc", "make", "flex", "bison", "bc", "ld", "strip", "xz", "tar", "dpkg-deb")
# The unpacked sources and what the build makes of them, with room to spare, in bytes.
SCRATCH = 2 << 30
# How many objects a build makes, for the display of progress only.
OBJECTS = 1020
# Counts up when the way of building changes in a manner that no other input shows.
FORMAT = 1
# Must not be inherited from the caller's environment, like an outer `make`.
DROPPED = re.compile(r"MAKE.*|MFLAGS|ARCH|SUBARCH|CROSS_COMPILE|K?C?A?FLAGS|KCFLAGS|LLVM|KBUILD_.*|KCONFIG_.*|O|V|W")


class Kernel:
    """Paths of one kernel."""

    def __init__(self, cache, name):
        self.cache, self.name = cache, name
        self.directory = cache / f"kernel-{name}"
        self.binary = self.directory / "linux"
        self.modules = self.directory / "modules"
        self.facts = self.directory / "kernel.json"

    def exists(self):
        return self.binary.is_file() and self.facts.is_file() and self.modules.is_dir()

    def release(self):
        return json.loads(self.facts.read_text())["release"]

    def require(self):
        if not self.exists():
            raise LabError(
                f"the kernel {self.name}, which this lab's hosts run, is not in {self.cache}",
                "run: python -m lab down, then: python -m lab up",
            )
        return self


def wanted():
    """The digest of what this project decides about the kernel: its configuration and the way of building it."""
    return hashlib.sha256(CONFIG.read_bytes() + f"\0{FORMAT}".encode()).hexdigest()[:16]


def name_of(version, compiler):
    summary = hashlib.sha256("\0".join([wanted(), version, compiler]).encode())
    return summary.hexdigest()[:16]


def cached(cache):
    """The newest kernel in the cache that was built from today's configuration, or None.

    It need not be of the newest sources: those are looked for only when a kernel has to be built.
    """
    found = []
    for path in cache.glob("kernel-*/kernel.json"):
        kernel = Kernel(cache, path.parent.name.removeprefix("kernel-"))
        try:
            same = json.loads(path.read_text())["wanted"] == wanted()
        except (json.JSONDecodeError, KeyError, TypeError):
            continue
        if same and kernel.exists():
            found.append((path.stat().st_mtime, kernel.name, kernel))
    return max(found)[-1] if found else None


def ensure(cache, accept, progress):
    """The kernel for today's configuration, and whether it had to be built.

    `accept` is called with a new kernel before it is put in place and raises LabError when it is no good; `progress`
    with one line of text now and then.
    """
    with locked(cache / "kernel.lock"):
        kernel = cached(cache)
        if kernel:
            return kernel, False
        require_tools()
        for torn in cache.glob(".kernel-*"):  # of a build that was killed: this one holds the lock
            shutil.rmtree(torn, ignore_errors=True)
        with scratch.directory(scratch.base(cache), "heddle-building-kernel-") as parts:
            require_space(parts.parent)
            source = kernel_source.find(parts, progress)
            compiler = compiler_version()
            kernel = Kernel(cache, name_of(source.version, compiler))
            if kernel.directory.exists():  # left over, and not complete: cached() would have found it
                shutil.rmtree(kernel.directory)
            with replacing(kernel.directory) as work:
                made = build(source, parts, work, progress)
                facts = {"wanted": wanted(), "version": source.version, "compiler": compiler, "release": made}
                (work / "kernel.json").write_text(json.dumps(facts, indent=2) + "\n")
                progress("boots a guest, to see what the kernel can do")
                accept(at(cache, work))
    return kernel, True


def at(cache, directory):
    """A kernel that is not in place yet."""
    kernel = Kernel(cache, directory.name)
    kernel.directory, kernel.binary = directory, directory / "linux"
    kernel.modules, kernel.facts = directory / "modules", directory / "kernel.json"
    return kernel


def require_tools():
    if platform.machine() != "x86_64":
        raise LabError(f"User Mode Linux does not run on {platform.machine()}", "use DRIVER=vm or DRIVER=nspawn")
    lacking = [name for name in TOOLS if shutil.which(name) is None]
    if lacking:
        raise LabError(
            f"the kernel of driver uml cannot be built without {', '.join(lacking)}",
            "run: python -m lab packages --driver uml",
        )


def require_space(directory):
    free = shutil.disk_usage(directory).free
    if free < SCRATCH:
        raise LabError(
            f"building the kernel of driver uml takes {SCRATCH >> 20} MB in {directory}, which has {free >> 20} MB",
            "make room there, or set TMPDIR to a directory that has it",
        )


def compiler_version():
    return run(["gcc", "--version"], "ask for the compiler's version").stdout.decode().splitlines()[0]


def environment():
    kept = {key: value for key, value in os.environ.items() if not DROPPED.fullmatch(key)}
    # Nothing about this machine or this moment goes into the kernel.
    built = {"KBUILD_BUILD_USER": "lab", "KBUILD_BUILD_HOST": "heddle", "KBUILD_BUILD_TIMESTAMP": "@0"}
    return {**kept, **built, "LC_ALL": "C"}


def build(source, parts, work, progress):
    """Build into an empty directory; return the kernel's release."""
    tree, objects = parts / "source", parts / "objects"
    objects.mkdir()
    kernel_source.unpack(source, tree, progress)
    make = ["make", "-C", str(tree), f"O={objects}", "ARCH=um"]
    configured = {**environment(), "KCONFIG_ALLCONFIG": str(CONFIG)}
    run([*make, "allnoconfig"], "configure the kernel", env=configured)
    lacking = missing_options(CONFIG.read_text(), (objects / ".config").read_text())
    if lacking:
        raise LabError(
            f"linux {source.version} does not accept {', '.join(lacking)} from {CONFIG}",
            "correct the names or add the options that these need",
        )
    compile_all([*make, f"-j{len(os.sched_getaffinity(0))}", "linux"], parts / "build.log", progress)
    release = run([*make, "-s", "kernelrelease"], "ask for the kernel's release", env=environment()).stdout.decode()
    run(["strip", "-o", str(work / "linux"), str(objects / "linux")], "strip the kernel")
    (work / "linux").chmod(0o755)
    (work / "modules").mkdir()
    for name in ("modules.builtin", "modules.builtin.modinfo"):
        shutil.copy(objects / name, work / "modules" / name)
    (work / "modules/modules.order").touch()
    shutil.copy(objects / ".config", work / "config")
    return release.strip()


def missing_options(fragment, config):
    """The lines of a fragment that a configuration does not have."""
    have = set(config.splitlines())
    return [line for line in fragment.splitlines() if line.startswith("CONFIG_") and line not in have]


def compile_all(argv, log, progress):
    """Run `make`, count the objects that it says it made, and keep all that it says."""
    done = 0
    with (
        open(log, "w") as kept,
        subprocess.Popen(
            argv, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace",
        ) as process,
    ):  # fmt: skip
        try:
            for line in process.stdout:
                kept.write(line)
                if re.match(r"\s+(CC|AS|LDS) ", line):
                    done += 1
                    progress(f"compiles object {done} of about {max(OBJECTS, done)}")
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        lines = [line.strip() for line in log.read_text().splitlines() if re.search(r"[Ee]rror|No space", line)]
        raise LabError(
            f"the kernel of driver uml does not compile: {' | '.join(lines[:3]) or 'no message'}",
            "make room there, or set TMPDIR to a directory that has it"
            if any("No space" in line for line in lines)
            else "use DRIVER=vm or DRIVER=nspawn, or another compiler",
        )
