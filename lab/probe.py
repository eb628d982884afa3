# SPDX-License-Identifier: Apache-2.0
"""Which driver fits this machine, and what its kernel lacks."""

import os
import shutil
import subprocess

from lab.config import DRIVERS
from lab.errors import LabError

# Each is tried for real, in a network namespace that ends with the command.
FEATURES = {
    "vrf": ("ip", "link", "add", "probe", "type", "vrf", "table", "10"),
    "fou": ("ip", "fou", "add", "port", "5555", "ipproto", "4"),
    "ipip": ("ip", "link", "add", "probe", "type", "ipip", "local", "127.0.0.1", "remote", "127.0.0.2"),
    "openvswitch": ("genl", "ctrl", "get", "name", "ovs_datapath"),
    "geneve": ("ip", "link", "add", "probe", "type", "geneve", "id", "1", "remote", "127.0.0.2"),
}


def missing_features():
    """Names of the features that this kernel does not have."""
    namespace = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    return [
        name
        for name, command in FEATURES.items()
        if subprocess.run([*namespace, *command], capture_output=True, check=False).returncode
    ]


def choose(wanted, missing, root, kvm=False, kernel=False):
    """(driver, reason) for a wish of auto or a driver. Emulated virtual machines are slow: only when asked for.

    `missing` are features that this machine's kernel does not have; `kvm` says whether KVM runs a guest, `kernel`
    whether a kernel of driver uml is in the cache.
    """
    lacks_some = f"this kernel lacks {', '.join(missing)}"
    if wanted not in ("auto", *DRIVERS):
        raise LabError(f"there is no driver {wanted}", f"use auto, {', '.join(DRIVERS[:-1])} or {DRIVERS[-1]}")
    require_permitted(wanted, root)
    if wanted == "nspawn":
        return "nspawn", f"asked for; {lacks_some}" if missing else "asked for"
    if wanted != "auto":
        return wanted, "asked for"
    if kvm:
        return "vm", "KVM runs guests here"
    if root and not missing:
        return "nspawn", "root, and this kernel has every feature"
    if kernel:
        return "uml", f"no KVM, {lacks_some if root else 'not root'}; the kernel of driver uml is in the cache"
    if root:
        return "nspawn", f"{lacks_some}: no VRFs and no local gateway mode here; DRIVER=uml has both"
    return "uml", "no KVM, not root"


def require_permitted(wanted, root):
    """Refuse a driver that this user cannot use."""
    if wanted == "nspawn" and not root:
        raise LabError("driver nspawn needs root", "use --driver uml or vm, which do not, or run this as root")


def wish(option):
    """The driver asked for: the option, else the environment."""
    return option or os.environ.get("DRIVER") or "auto"


def lacks(names):
    """Commands of these that are not installed."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    return [name for name in names if shutil.which(name, path=path) is None]
