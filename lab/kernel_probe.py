# SPDX-License-Identifier: Apache-2.0
"""Does a kernel of driver `uml` boot here, and has it what hosts need? A tiny guest is asked once per machine."""

import hashlib
import json
import platform
import re
import tempfile
from pathlib import Path

from lab import guest, probe
from lab.errors import LabError
from lab.image import locked

# Seconds; a guest needs about two. Only one that hangs reaches it.
LIMIT = 300
# Tried in a network namespace of their own with the image's programs, besides those of lab/probe.py.
FEATURES = {
    **{name: " ".join(command) for name, command in probe.FEATURES.items()},
    "vxlan": "ip link add probe type vxlan id 1 dstport 4789 remote 127.0.0.2",
    "ip6tnl": "ip link add probe type ip6tnl local ::1 remote ::2",
    "sit": "ip link add probe type sit local 127.0.0.1 remote 127.0.0.2",
    "fou6": "ip -6 fou add port 5555 ipproto 41",
    "devices": "ip link add p1 type veth peer name p2 && ip link add p3 type dummy && "
    "ip link add p4 type bridge vlan_filtering 1 && ip link add p5 link p3 type macvlan && "
    "ip link add p6 link p3 type vlan id 5 && ip tuntap add p7 mode tap",
    "rules": "ip rule add l3mdev && ip -6 rule add fwmark 5 table 7",
    "nft-nat": "nft add table inet t && nft 'add chain inet t c { type nat hook postrouting priority 100; }' && "
    "nft add rule inet t c ip saddr 192.0.2.1 snat ip to 192.0.2.2 && nft add rule inet t c masquerade",
    "nft-ct": "nft add table inet t && nft 'add chain inet t c { type filter hook prerouting priority -300; }' && "
    "nft add rule inet t c ct zone set 5 && nft add rule inet t c ct state established ct mark set 7",
    "nft-filter": "nft add table inet t && nft 'add chain inet t c { type filter hook input priority 0; }' && "
    "nft add rule inet t c fib daddr type local limit rate 5/second log reject",
    "nft-families": "nft add table ip t && nft add table ip6 t && nft add table arp t && nft add table bridge t && "
    "nft add table netdev t && nft 'add chain netdev t c { type filter hook ingress device lo priority 0; }'",
    "nft-socket": "mount -t cgroup2 cg /sys/fs/cgroup && mkdir -p /sys/fs/cgroup/user && nft add table inet t && "
    "nft 'add chain inet t c { type filter hook output priority 0; }' && "
    "nft add rule inet t c socket cgroupv2 level 1 '\"user\"' accept",
    "conntrack": "conntrack -L",
    "esp": "for pair in '127.0.0.1 127.0.0.2' '::1 ::2'; do set -- $pair; "
    "ip xfrm state add src $1 dst $2 proto esp spi 300 reqid 1 mode transport aead 'rfc4106(gcm(aes))' "
    "0x000102030405060708090a0b0c0d0e0f10111213 128 || exit 1; done",
    "sctp": "python3 -c 'import socket; socket.socket(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_SCTP)'",
    "netem": "tc qdisc add dev lo root netem loss 2%",
    "htb": "tc qdisc add dev lo root handle 1: htb && tc class add dev lo parent 1: classid 1:1 htb rate 1mbit",
    "police": "tc qdisc add dev lo ingress && "
    "tc filter add dev lo parent ffff: matchall action police rate 1mbit burst 10k drop",
    "classify": "tc qdisc add dev lo ingress && "
    "tc filter add dev lo parent ffff: prio 1 u32 match u32 0 0 action ok && "
    "tc filter add dev lo parent ffff: prio 2 protocol ip flower action mirred egress redirect dev lo",
    "cpu-quota": "mkdir -p /run/cg && mount -t cgroup2 cg /run/cg && echo +cpu > /run/cg/cgroup.subtree_control && "
    "mkdir /run/cg/probe && echo 10000 100000 > /run/cg/probe/cpu.max",
    "fuse": "grep -qw fuse /proc/filesystems",
}


def key_of(kernel, image):
    """What an answer is good for: this kernel and image on this kind of processor under this machine's kernel."""
    text = Path("/proc/cpuinfo").read_text()
    processor = "".join(sorted(set(re.findall(r"(?m)^(?:model name|flags)\s*:.*$", text))))
    return " ".join([platform.release(), kernel.name, image.name, hashlib.sha256(processor.encode()).hexdigest()[:16]])


def require(kernel, image):
    """Raise LabError unless the kernel works here; a stored result is not tested again. True when it was tested."""
    with locked(kernel.cache / "uml.lock"):
        path, key = kernel.cache / "uml.json", key_of(kernel, image)
        try:
            known = json.loads(path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            known = []
        if key in known:
            return False
        attempt(kernel, image)
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps([key]) + "\n")
        temporary.rename(path)
    return True


def attempt(kernel, image):
    """Boot a guest that tries every feature."""
    with tempfile.TemporaryDirectory(prefix="heddle-") as scratch:
        directory = Path(scratch)
        initramfs = directory / "initramfs"
        features = "".join(f"{name} {command}\n" for name, command in FEATURES.items())
        guest.write_initramfs(kernel, "probe", {"features": features}, initramfs)
        argv = guest.arguments(kernel, image, "probe", initramfs, f"r:{image.disk}", directory)
        evaluate(*guest.run(argv, guest.memory_directory(1), LIMIT))


def evaluate(console, ended):
    """Raise LabError when the console of a probe does not report that everything works."""
    instead = "use DRIVER=vm or DRIVER=nspawn"
    found = dict(re.findall(r"(?m)^feature (\S+) (\d+)\s*$", console))
    if "probe-done" not in console:
        lines = [line.strip() for line in console.splitlines() if line.strip()] or ["it wrote nothing"]
        how = "ended early" if ended else f"did not end within {LIMIT} s"
        raise LabError(f"the kernel of driver uml does not run a guest here: it {how}: {lines[-1]}", instead)
    lacking = [name for name in FEATURES if found.get(name) != "0"]
    if lacking:
        raise LabError(f"the kernel of driver uml lacks {', '.join(lacking)}", instead)
