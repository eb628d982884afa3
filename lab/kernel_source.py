# SPDX-License-Identifier: Apache-2.0
"""The sources of the kernel of driver `uml`: Debian's package linux-source-VERSION, from the machine's own mirror.

The machine's apt sources stay as they are: apt works on a configuration, lists and a cache of its own.
"""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab import sources
from lab.errors import LabError
from lab.image import run

# Where packages newer than the image's suite are, the nearest one first.
SUITES = (f"{sources.SUITE}-backports", "sid")
# The first version that was tried; later ones are accepted when the boot probe passes.
TESTED = (7, 2)
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Of these directories only what configures a build is needed, not what would be compiled.
UNUSED = (
    *(f"arch/{name}" for name in (
        "alpha", "arc", "arm", "arm64", "csky", "hexagon", "loongarch", "m68k", "microblaze", "mips", "nios2",
        "openrisc", "parisc", "powerpc", "riscv", "s390", "sh", "sparc", "xtensa",
    )),
    *(f"drivers/{name}" for name in (
        "accel", "clk", "gpu", "iio", "infiniband", "media", "net/ethernet", "net/wireless", "pinctrl", "scsi",
        "staging", "usb",
    )),
    "fs/btrfs", "fs/xfs", "sound",
)  # fmt: skip
UNUSED_NAMES = ("*.[chS]", "*.dts", "*.dtsi")
UNUSED_TREES = ("tools/testing", "tools/perf")
UNUSED_DOCUMENTS = ("Documentation/*.rst", "Documentation/*.yaml")


@dataclass(frozen=True)
class Found:
    """A package with sources, downloaded."""

    version: str
    package: Path


def find(scratch, progress):
    """Download the package with the sources into a directory."""
    mirror = sources.choose(sources.read_sources())
    problems = []
    for suite in SUITES:
        progress(f"looks for linux-source in {suite}")
        environment = private_apt(scratch / f"apt-{suite}", mirror.line(suite, keyring()))
        done = apt(environment, "apt-get", "update", "--error-on=any")
        if done.returncode:
            problems.append(f"{suite}: {last_line(done)}")
            continue
        listed = apt(environment, "apt-cache", "search", "--names-only", "^linux-source-[0-9]").stdout
        name = choose([line.split()[0] for line in listed.splitlines() if line.strip()])
        if name is None:
            problems.append(f"{suite} has no linux-source from {'.'.join(map(str, TESTED))} on")
            continue
        shown = apt(environment, "apt-cache", "show", "--no-all-versions", name).stdout
        version = re.search(r"(?m)^Version: (\S+)", shown)[1]
        progress(f"downloads {name} {version}")
        done = apt(environment, "apt-get", "download", name, cwd=scratch)
        packages = list(scratch.glob(f"{name}_*.deb"))
        if done.returncode or not packages:
            problems.append(f"{suite}: {last_line(done)}")
            continue
        return Found(version, packages[0])
    raise LabError(
        f"no sources for the kernel of driver uml on {mirror.uri}: {'; '.join(problems)}",
        "set LAB_APT_URI to a mirror that has them, or use DRIVER=vm or DRIVER=nspawn",
    )


def keyring():
    return str(KEYRING) if KEYRING.exists() else None


def choose(names):
    """The package nearest to the tested version, of those that are not older; None when there is none."""
    versions = {}
    for name in names:
        match = re.fullmatch(r"linux-source-(\d+)\.(\d+)", name)
        if match:
            versions[int(match[1]), int(match[2])] = name
    return versions[min(newer)] if (newer := [version for version in versions if version >= TESTED]) else None


def private_apt(directory, line):
    """The environment in which apt uses one source, and of the machine only its access to the mirror."""
    for name in ("lists/partial", "cache/archives/partial"):
        (directory / name).mkdir(parents=True)
    (directory / "sources.list").write_text(line + "\n")
    text = [
        'Dir::Etc::main "/dev/null";',
        'Dir::Etc::parts "/dev/null";',
        'Dir::Etc::preferences "/dev/null";',
        'Dir::Etc::preferencesparts "/dev/null";',
        f'Dir::Etc::sourcelist "{directory}/sources.list";',
        'Dir::Etc::sourceparts "/dev/null";',
        f'Dir::State::lists "{directory}/lists";',
        f'Dir::Cache "{directory}/cache";',
        'Acquire::Languages "none";',
        # The user that apt would become cannot reach our directory.
        'APT::Sandbox::User "";',
        *sources.apt_options(),
    ]
    (directory / "apt.conf").write_text("\n".join(text) + "\n")
    return {**os.environ, "APT_CONFIG": str(directory / "apt.conf"), "LC_ALL": "C"}


def apt(environment, *argv, cwd=None):
    return subprocess.run(
        argv, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def last_line(done):
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith(("E:", "W:"))]
    return lines[-1] if lines else f"apt ended with {done.returncode}"


def unpack(source, tree, progress):
    """Unpack what a build for ARCH=um reads: a third of it all."""
    progress(f"unpacks linux {source.version}")
    content = source.package.with_suffix(".content")
    run(["dpkg-deb", "--extract", str(source.package), str(content)], "unpack the package with the sources")
    source.package.unlink()
    (archive,) = content.glob("usr/src/linux-source-*.tar.xz")
    tree.mkdir()
    patterns = [f"*/{directory}/{name}" for directory in UNUSED for name in UNUSED_NAMES]
    patterns += [f"*/{name}/*" for name in UNUSED_TREES] + [f"*/{name}" for name in UNUSED_DOCUMENTS]
    argv = ["tar", "--extract", f"--file={archive}", "--use-compress-program=xz -T0", "--strip-components=1"]
    argv += [f"--directory={tree}", "--wildcards", *(f"--exclude={pattern}" for pattern in patterns)]
    run(argv, "unpack the sources")
    archive.unlink()
