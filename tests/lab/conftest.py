# SPDX-License-Identifier: Apache-2.0
"""A lab that was brought up and converged before (`make test-lab`), and what the tests do with it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import merged
from tests import supervised

ROOT = Path(__file__).resolve().parent.parent.parent
REPORT = Path(os.environ.get("LAB_REPORT") or ROOT / "report")
NODES = ("node1", "node2", "node3")
MANIFESTS = ROOT / "inventories" / "lab" / "manifests"
# Seconds that a command on a host may take, or that something is waited for; only what hangs reaches them.
PATIENCE = 600
_RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """One run of a playbook: `changed` and `unreachable` by host."""

    code: int
    output: str

    @property
    def changed(self) -> dict[str, int]:
        return {match[1]: int(match[3]) for match in _RECAP.finditer(self.output)}

    @property
    def unreachable(self) -> list[str]:
        return [match[1] for match in _RECAP.finditer(self.output) if int(match[4])]


class Lab:
    """The lab's hosts and the playbooks on them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def play(self, playbook: str, *arguments: str, manifests: Path = MANIFESTS, success: bool = True) -> Run:
        """Run a playbook of the project; with `success` its failure fails the test."""
        with self.begin(playbook, *arguments, manifests=manifests) as process:
            output = process.communicate()[0]
        run = Run(process.returncode, output)
        if success:
            assert run.code == 0, run.output[-6000:]
        return run

    @contextlib.contextmanager
    def begin(
        self, playbook: str, *arguments: str, manifests: Path = MANIFESTS, quiet=False
    ) -> Iterator[subprocess.Popen]:
        """Start a playbook of the project, and wait for it at the end of the block, or end it when the block fails.

        `quiet`: what it prints is lost.
        """
        command = [str(ROOT / "scripts" / "play"), f"playbooks/{playbook}", "-e", f"heddle_manifests={manifests}"]
        # The recap of Ansible's default output is what `Run` reads.
        environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "HEDDLE_VERBOSE": "1", "HEDDLE_LOG_DIRECTORY": ""}
        with supervised.running(
            [*command, *arguments], cwd=ROOT, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL if quiet else subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            yield process

    def ssh(self, host: str, *command: str) -> str:
        """Run a command on a host and return what it printed."""
        done = self.try_ssh(host, *command)
        assert done.returncode == 0, f"{host}: {' '.join(command)}: {done.stderr}"
        return done.stdout

    def plan(self, nodes: Iterable[str] = NODES) -> dict:
        """Return the plan that the hosts have, each a part of it."""
        return merged(json.loads(self.ssh(node, "cat", "/var/lib/heddle/plan.json")) for node in nodes)

    def try_ssh(self, host: str, *command: str) -> subprocess.CompletedProcess:
        """Run a command on a host, which may fail."""
        return subprocess.run(
            ["ssh", "-F", str(self.directory / "ssh_config"), host, *command],
            capture_output=True, text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip

    def wait_for_answers(self, host: str, namespace: str, *addresses: str) -> None:
        """Wait until each address has answered an echo request from a network namespace of a host.

        On a busy machine a packet may be lost, or come late.
        """
        deadline = time.monotonic() + PATIENCE
        for address in addresses:
            ping = ("ip", "netns", "exec", namespace, "ping", "-n", "-c1", "-W5", address)
            while (done := self.try_ssh(host, *ping)).returncode:
                assert time.monotonic() < deadline, f"{host} {namespace}: {address}: {done.stdout}{done.stderr}"
                time.sleep(0.2)

    def verb(self, *arguments: str) -> None:
        """Run a verb of the lab's own program."""
        subprocess.run([sys.executable, "-m", "lab", *arguments], cwd=ROOT, check=True, capture_output=True)

    def uninstall(self) -> None:
        """Remove Heddle from all hosts. The lab's DNS server runs on in the removed namespace, so it is stopped."""
        self.play("uninstall.yml", "-e", "heddle_uninstall_force=true")
        for node in NODES:
            self.try_ssh(node, "systemctl stop standin-dns.service")

    def provider_flows(self, node: str) -> list[str]:
        """Return the flows of a node's provider bridge, without statistics and without those that it learned."""
        text = self.ssh(node, "ovs-ofctl", "--no-stats", "--names", "dump-flows", "br-ex")
        return sorted(line.strip() for line in text.splitlines() if not re.search(r"flags=|cookie=0x306\b", line))

    def dump(self) -> dict[str, str]:
        """Return all that Heddle may write on the hosts, in a form that is equal when nothing changed.

        Left out are columns in which daemons count, and the patch ports of ovn-controller, which deletes none in its
        first seconds (OVN, `lib/ovn-util.c`, `daemon_started_recently`).
        """
        found = {}
        for node in NODES:
            northbound = self.ssh(node, "ovsdb-client", "dump", "unix:/run/ovn/ovnnb_db.sock", "OVN_Northbound")
            switch = self.ssh(
                node, "ovs-vsctl", "--format=csv", "--columns=type,name,external_ids", "list", "Interface"
            )
            names = self.ssh(node, "ip", "netns", "list")
            chassis = self.ssh(node, "ovn-sbctl", "--columns=name,hostname", "list", "Chassis")
            kept = [line for line in northbound.splitlines() if not _COUNTED.search(line)]
            stamped = re.sub(r", ovn-installed(-ts)?=\"*\w+\"*", "", switch)
            interfaces = sorted(line for line in stamped.splitlines() if not line.startswith("patch,patch-"))
            found[node] = "\n".join([*kept, *interfaces, *_names(names), *sorted(chassis.splitlines())])
        return found


_COUNTED = re.compile(r"northd_internal_version|nb_cfg")


def _names(listing: str) -> list[str]:
    return sorted(line.split()[0] for line in listing.splitlines())


def lab_directory() -> Path:
    """Return the directory of the lab that runs; without one the test fails."""
    directory = Path(os.environ.get("LAB_DIR") or ROOT / ".lab")
    if not (directory / "ssh_config").exists():
        pytest.fail("there is no lab; `make test-lab` starts one, installs it and runs these tests")
    return directory


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab(lab_directory())
