# SPDX-License-Identifier: Apache-2.0
"""How the machine reaches the hosts: one ssh configuration for people, scripts and Ansible."""

import concurrent.futures
import os
import subprocess
import time

from lab.errors import LabError

# Waits are generous: a busy machine under software emulation takes several times what an idle one does.
PATIENCE = 600


def write_config(path, key, sockets, endpoints):
    """Write the configuration. `endpoints` maps a host's name to the lines that only it has."""
    text = [
        "# Written by `python -m lab`.",
        *(line for name, lines in endpoints.items() for line in (f"Host {name}", *(f"    {line}" for line in lines))),
        f"Host {' '.join(endpoints)}",
        "    User root",
        f"    IdentityFile {key}",
        "    IdentitiesOnly yes",
        "    StrictHostKeyChecking no",
        "    UserKnownHostsFile /dev/null",
        "    LogLevel ERROR",
        "    ControlMaster auto",
        "    ControlPersist 600",
        f"    ControlPath {sockets}/%n.ssh",
        "    ServerAliveInterval 30",
        "    ServerAliveCountMax 6",
    ]
    temporary = path.with_suffix(".new")
    temporary.write_text("\n".join(text) + "\n")
    temporary.rename(path)


def write_key(path, image):
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as key:
        key.write(image.ssh_key.read_bytes())


def run(config, host, command, data=None, timeout=120):
    """Run a command on a host. A control connection that it leaves behind must not hold our pipes open."""
    argv = ["ssh", "-F", str(config), "-o", "ConnectTimeout=5", "-o", "BatchMode=yes", host, command]
    try:
        return subprocess.run(
            argv,
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return None


def wait(config, host, command="true", data=None, alive=lambda: True):
    """Repeat a command until the host answers and it succeeds; return its output."""
    deadline = time.monotonic() + PATIENCE
    while True:
        done = run(config, host, command, data)
        if done is not None and done.returncode == 0:
            return done.stdout
        if time.monotonic() > deadline or not alive():
            raise LabError(f"{host} does not answer on ssh", f"read its console in {config.parent}/logs/{host}.log")
        time.sleep(0.2)


def hang_up(config, host):
    """Close the shared connection to a host that is about to go."""
    subprocess.run(["ssh", "-F", str(config), "-O", "exit", host], capture_output=True, check=False)


def in_parallel(work, items):
    """Run `work` for every item at once; when some fail, raise the first error after all have ended."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, len(items))) as pool:
        return [future.result() for future in [pool.submit(work, item) for item in items]]
