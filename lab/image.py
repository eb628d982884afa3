# SPDX-License-Identifier: Apache-2.0
"""The host image: one Debian root that all drivers boot, built once per digest of its inputs."""

import contextlib
import fcntl
import hashlib
import io
import os
import pathlib
import shutil
import struct
import subprocess
import tarfile
import tempfile

from lab import scratch, sources
from lab.config import FILES
from lab.errors import LabError

PACKAGES = (
    "systemd", "systemd-sysv", "openssh-server", "iproute2", "iputils-ping", "openvswitch-switch", "ovn-central",
    "ovn-host", "ovn-common", "python3", "python3-yaml", "python3-netaddr", "python3-ovsdbapp", "python3-openvswitch",
    "python3-pyroute2", "python3-nftables", "python3-apt", "nftables", "ethtool", "procps", "kmod", "tcpdump",
    "linux-image-cloud-amd64", "bird2", "conntrack", "dnsmasq-base", "busybox-static", "cpio", "qemu-system-x86",
    "libjemalloc2", "python3-os-ken", "python3-cryptography", "python3-dnspython", "openssl",
)  # fmt: skip
BUILD_OPTIONS = (
    "--variant=minbase",
    '--aptopt=Acquire::Languages "none"',
    "--dpkgopt=force-unsafe-io",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/info/*",
)
# As root mmdebstrap mounts /proc, /sys and /dev into the directory that it installs into. Only it may see these mounts,
# and it has to end with the process that builds: else what it leaves cannot be removed safely.
CONFINED = (
    "setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child",
    "--mount-proc",
)  # fmt: skip
# What the initramfs needs to reach its disks; virtio_net comes along so that interfaces exist before systemd starts.
BOOT_MODULES = ("virtio_blk", "virtio_net", "squashfs", "overlay")
BUSYBOX_APPLETS = (
    "sh",
    "mount",
    "umount",
    "insmod",
    "sleep",
    "mkdir",
    "mknod",
    "cp",
    "find",
    "switch_root",
    "poweroff",
)
DISK_BYTES = 8 << 30
# What a build needs in the temporary directory: the installed packages, and the same as an archive. What an image takes
# in the cache, and what it takes there as a directory.
BUILD_BYTES, IMAGE_BYTES, ROOT_BYTES = 3 << 30, 1 << 29, 1 << 30
# The first bytes of a squashfs: its magic number, and how many bytes it has.
SUPERBLOCK = struct.Struct("<4s36xQ")
REMEDY = (
    "correct what it says, or make room where the lab writes (LAB_DIR, XDG_CACHE_HOME, TMPDIR); then repeat the command"
)
# Counts up when the way of building changes in a manner that no other input shows.
FORMAT = 1


def digest():
    """The digest of everything that decides what the image contains."""
    summary = hashlib.sha256()
    for part in (FORMAT, sources.SUITE, PACKAGES, BUILD_OPTIONS, BOOT_MODULES, BUSYBOX_APPLETS, DISK_BYTES):
        summary.update(repr(part).encode() + b"\0")
    for path in sorted(path for path in FILES.rglob("*") if path.is_file()):
        summary.update(f"{path.relative_to(FILES)}\0".encode() + path.read_bytes() + b"\0")
    return summary.hexdigest()[:16]


class Image:
    """Paths of one built image."""

    def __init__(self, cache, name):
        self.name = name
        self.cache = cache
        self.directory = cache / f"image-{name}"
        self.squashfs = self.directory / "root.squashfs"
        self.kernel = self.directory / "vmlinuz"
        self.initramfs = self.directory / "initramfs"
        self.disk = self.directory / "empty.ext4"
        self.ssh_key = self.directory / "ssh_key"
        self.root = self.directory / "root"

    def exists(self):
        """Is it there and whole? A machine that lost its power may have truncated what it wrote last."""
        made = (self.kernel, self.initramfs, self.disk, self.ssh_key)
        return all(path.is_file() and path.stat().st_size for path in made) and whole(self.squashfs)

    def require(self):
        if not self.exists():
            raise LabError(
                f"the image {self.name}, which this lab's hosts run, is not in {self.cache} or not whole",
                "run: python -m lab down, then: python -m lab up",
            )
        return self


def whole(squashfs):
    """Is it a squashfs with all its bytes?"""
    try:
        with open(squashfs, "rb") as stream:
            magic, used = SUPERBLOCK.unpack(stream.read(SUPERBLOCK.size))
            return magic == b"hsqs" and used <= os.fstat(stream.fileno()).st_size
    except (FileNotFoundError, struct.error):
        return False


@contextlib.contextmanager
def locked(path):
    """Hold a lock file, so that two runs that need the same thing make it once."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # The previous owner may have removed the file: then this lock would not exclude other processes.
            if _inode(path) == os.fstat(handle.fileno()).st_ino:
                yield
                return


def _inode(path):
    """Its number, None when it does not exist."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def replacing(target):
    """Yield an empty directory next to `target` that takes its name when the body succeeds."""
    work = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield work
        work.chmod(0o755)
        work.rename(target)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def ensure(cache, progress=lambda _text: None):
    """The image for today's inputs, and whether it had to be built; `progress` is called before that."""
    image = Image(cache, digest())
    with locked(cache / "image.lock"):
        if image.exists():
            return image, False
        if image.directory.exists():  # parts of it were removed or truncated
            shutil.rmtree(image.directory)
        for torn in cache.glob(".image-*"):  # of a build that was killed: this one holds the lock
            shutil.rmtree(torn, ignore_errors=True)
        progress(f"installs Debian {sources.SUITE} for the hosts, which takes minutes")
        with replacing(image.directory) as work:
            build(work)
    return image, True


def ensure_root(image):
    """The image as a directory, for containers. Needs root, to give files their owners."""
    with locked(image.cache / "image.lock"):
        if image.root.is_dir():
            return image.root, False
        require_space("unpacking the host image", {image.directory: ROOT_BYTES})
        with replacing(image.root) as work:
            work.rmdir()
            run(["unsquashfs", "-quiet", "-no-progress", "-dest", str(work), str(image.squashfs)], "unpack the image")
    return image.root, True


def run(argv, purpose, remedy=REMEDY, **options):
    """Run a command whose output matters only when it fails."""
    if shutil.which(argv[0], path=options.get("env", os.environ).get("PATH")) is None:
        raise LabError(f"cannot {purpose}: there is no command {argv[0]}", "run: python -m lab packages")
    done = subprocess.run(argv, stdout=options.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE, **options)
    if done.returncode:
        tail = " | ".join(done.stderr.decode(errors="replace").strip().splitlines()[-4:]) or "it wrote no message"
        raise LabError(f"cannot {purpose}: {argv[0]} ended with {done.returncode}: {tail}", remedy)
    return done


def device(directory):
    """What distinguishes the disk of a directory from others."""
    return os.stat(directory).st_dev


def require_space(purpose, needed):
    """Refuse to begin what would end with a full disk. `needed` has bytes by directory, some of them on one disk."""
    disks = {}
    for directory, size in needed.items():
        disks.setdefault(device(directory), []).append((str(directory), size))
    for parts in disks.values():
        free, sum_of_sizes = shutil.disk_usage(parts[0][0]).free, sum(size for _, size in parts)
        if free < sum_of_sizes:
            raise LabError(
                f"{' and '.join(name for name, _ in parts)}: {free / 1e9:.1f} GB left, and {purpose} takes "
                f"{sum_of_sizes / 1e9:.1f} GB there",
                "make room, or set TMPDIR and XDG_CACHE_HOME to directories with more",
            )


def build(work):
    """Build into an empty directory of the cache."""
    with scratch.directory(scratch.base(work.parent, public=os.geteuid() != 0), "heddle-building-image-") as parts:
        build_in(work, parts)


def build_in(work, parts):
    """Build by means of a second directory for what is needed in between."""
    require_space("building the host image", {parts.parent: BUILD_BYTES, work.parent: IMAGE_BYTES})
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(work / "ssh_key")], "make an ssh key")
    additions = parts / "additions.tar"
    write_additions(additions, (work / "ssh_key.pub").read_bytes())
    tarball = parts / "root.tar"
    bootstrap(additions, tarball)
    with open(tarball, "rb") as stream:
        run(
            ["sqfstar", "-comp", "lz4", "-quiet", "-no-progress", str(work / "root.squashfs")],
            "pack the image",
            stdin=stream,
        )
    boot = parts / "boot"
    release = extract_boot_files(tarball, boot)
    shutil.copyfile(next((boot / "boot").glob("vmlinuz-*")), work / "vmlinuz")
    write_initramfs(boot / "usr/lib/modules" / release, parts / "initramfs", work / "initramfs")
    with open(work / "empty.ext4", "wb") as disk:
        disk.truncate(DISK_BYTES)
    run(["/usr/sbin/mkfs.ext4", "-q", "-F", str(work / "empty.ext4")], "make an empty disk")


def write_additions(path, public_key):
    """The files that the lab adds to Debian's packages, owned by root, also when another user builds."""
    with tarfile.open(path, "w") as archive:

        def add(name, data, mode):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            archive.addfile(member, io.BytesIO(data))

        for source in sorted((FILES / "root").rglob("*")):
            if source.is_file():
                mode = 0o755 if source.parent.name == "sbin" else 0o644
                add(source.relative_to(FILES / "root").as_posix(), source.read_bytes(), mode)
        add("customize", (FILES / "customize").read_bytes(), 0o755)
        home = tarfile.TarInfo("root/.ssh")
        home.type, home.mode = tarfile.DIRTYPE, 0o700
        archive.addfile(home)
        add("root/.ssh/authorized_keys", public_key, 0o600)


def bootstrap(additions, tarball):
    """Install Debian into a tar archive."""
    source = sources.choose(sources.read_sources())
    root = os.geteuid() == 0
    argv = ["mmdebstrap", f"--mode={'root' if root else 'unshare'}", "--quiet", *BUILD_OPTIONS]
    argv.append(f"--include={','.join(PACKAGES)}")
    argv += [f"--aptopt={option}" for option in sources.apt_options()]
    argv += [
        f"--essential-hook=tar-in {additions} /",
        '--customize-hook=chroot "$1" /customize',
        '--customize-hook=rm "$1/customize"',
        "--format=tar",
        sources.SUITE,
        "-",
        source.line(),
    ]
    # Where root may not make namespaces, as in some containers, mmdebstrap mounts nothing.
    if root and subprocess.run([*CONFINED, "true"], capture_output=True, check=False).returncode == 0:
        argv = [*CONFINED, *argv]
    # mmdebstrap installs into a directory of its own below TMPDIR.
    environment = {**os.environ, "TMPDIR": str(tarball.parent)}
    with open(tarball, "wb") as stream:
        remedy = "check that apt reaches its mirror (apt-get update), or set LAB_APT_URI to the address of another"
        run(argv, f"install Debian {sources.SUITE} from {source.uri}", remedy, stdout=stream, stdin=subprocess.DEVNULL,
            env=environment)  # fmt: skip


def extract_boot_files(tarball, target):
    """Take the kernel and the modules' index and files out of the archive; return the kernel's release."""
    target.mkdir()
    with tarfile.open(tarball) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if member.isfile() and name.startswith(("boot/vmlinuz-", "usr/lib/modules/")):
                path = target / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.extractfile(member) as source, open(path, "wb") as copy:
                    shutil.copyfileobj(source, copy)
    return next((target / "usr/lib/modules").iterdir()).name


def load_order(index, wanted):
    """Module files in the order in which they must be loaded, from the text of modules.dep."""
    needs = {}
    for line in index.splitlines():
        path, _, rest = line.partition(":")
        needs[pathlib.PurePath(path).stem] = (path, rest.split())
    order = []

    def visit(path):
        for dependency in needs[pathlib.PurePath(path).stem][1]:
            visit(dependency)
        if path not in order:
            order.append(path)

    for name in wanted:
        if name in needs:  # otherwise it is part of the kernel itself
            visit(needs[name][0])
    return order


def write_initramfs(modules, tree, target):
    """A small initramfs: busybox, a few modules, and a script that finds the disks."""
    for name in ("bin", "dev", "proc", "lower", "state", "new", "modules", "host"):
        (tree / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", tree / "bin/busybox")
    for applet in BUSYBOX_APPLETS:
        (tree / "bin" / applet).symlink_to("busybox")
    order = load_order((modules / "modules.dep").read_text(), BOOT_MODULES)
    for path in order:
        shutil.copy(modules / path, tree / "modules" / pathlib.PurePath(path).name)
    (tree / "modules/order").write_text("".join(f"/modules/{pathlib.PurePath(path).name}\n" for path in order))
    for name in ("init", "kvm-probe"):
        shutil.copy(FILES / name, tree / name)
        (tree / name).chmod(0o755)
    pack(tree, target)


def pack(tree, target):
    """Write a directory as a cpio archive; the kernel accepts several of them one after the other."""
    names = sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*"))
    with open(target, "ab") as stream:
        run(
            ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"],
            "pack an initramfs",
            cwd=tree,
            input="\n".join(names).encode(),
            stdout=stream,
        )
