# SPDX-License-Identifier: Apache-2.0
"""What a container finds before systemd-nspawn starts."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from lab import container
from lab.config import PROJECT

SCRIPT = """
import os
import stat
import pathlib
import subprocess
import sys
from lab import container
place = pathlib.Path(sys.argv[1])
subprocess.run(["ip", "link", "add", "heddle-inside", "type", "veth", "peer", "name", "heddle-peer"], check=True)
groups = sorted(os.listdir("/sys/fs/cgroup"))
container.mount_sys(place)
assert sorted(os.listdir("/sys/class/net")) == ["heddle-inside", "heddle-peer", "lo"], os.listdir("/sys/class/net")
assert sorted(os.listdir("/sys/fs/cgroup")) == groups
assert os.statvfs("/sys").f_flag & os.ST_RDONLY
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts and network namespaces need root")
def test_sys_shows_the_container_interfaces(tmp_path):
    argv = ["unshare", "--net", "--mount", "--propagation=private", sys.executable, "-c", SCRIPT, str(tmp_path / "sys")]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=PROJECT, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="device nodes need root")
def test_tun_device_is_usable_for_every_user(tmp_path):
    path = tmp_path / "tun"
    path.write_text("left by an earlier boot")
    container.make_tun(path)
    found = path.stat()
    assert stat.S_ISCHR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o666
    assert (os.major(found.st_rdev), os.minor(found.st_rdev)) == (10, 200)
