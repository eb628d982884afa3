# SPDX-License-Identifier: Apache-2.0
"""BIRD in network namespaces that stand for hosts and a router, and plans with a pool for them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.bird.reconcile import Places, reconcile_bird
from ansible_collections.heddle.ovn.plugins.module_utils.common.errors import NotInstalled
from ansible_collections.heddle.ovn.plugins.module_utils.common.polling import attempts
from ansible_collections.heddle.ovn.plugins.module_utils.common.processes import subprocesses
from ansible_collections.heddle.ovn.plugins.module_utils.common.processes.subprocesses import Run
from ansible_collections.heddle.ovn.plugins.module_utils.render.coil.bird_configuration import render_bird
from tests.live.coil.hosts import OUTSIDE, apply, fleet, host, run
from tests.live.conftest import START_TIMEOUT
from tests.pipeline import namespace, plan_of, workload

NAMES = f"b{os.getpid()}"
# As Debian's, which writes BIRD's main tables into the kernel's main one, and a route of the user's own.
FOREIGN = """log stderr all;
protocol device { }
protocol kernel { ipv4 { export all; }; }
protocol kernel { ipv6 { export all; }; }
protocol static mine { ipv4; route 203.0.113.0/24 blackhole; }
"""
ROUTER = """log stderr all;
router id 192.0.2.20;
protocol device { }
protocol kernel { ipv4 { export all; import none; }; }
protocol kernel { ipv6 { export all; import none; }; }
"""
HOSTS = {
    f"node{number}": {
        "chassis": f"c{number}", "encap_ips": [f"192.0.2.{number}"],
        "addresses": [f"192.0.2.{number}", f"2001:db8::{number}"],
    }
    for number in (1, 2, 3)
}  # fmt: skip


def wait_until(holds: Callable[[], bool], seconds: float) -> None:
    """Return when something holds; fail with the last value otherwise."""
    for _attempt in attempts(seconds):
        if holds():
            return
    pytest.fail(f"not within {seconds} s")


def planned(*places: int, coil: dict | None = None, count: int = 2) -> dict:
    """A plan with a pool, and a workload at each of the places."""
    text = (
        "---\napiVersion: coil.cybozu.com/v2\nkind: AddressPool\nmetadata: {name: pool1}\n"
        "spec: {blockSizeBits: 1, subnets: [{ipv4: 10.2.0.0/24, ipv6: 'fd02::/120'}]}\n"
    )
    text += namespace(NAMES, primary=False).rstrip() + "\n  annotations: {coil.cybozu.com/pool: pool1}\n"
    text += "".join(workload(NAMES, f"w{number}", f"node{place}") for number, place in enumerate(places))
    return plan_of(text, hosts=dict(list(HOSTS.items())[:count]), settings={"coil": coil or {}})


@contextlib.contextmanager
def bird(tools, where: str, directory: Path, text: str) -> Iterator[Places]:
    """A BIRD in a namespace; its files and socket are in the directory."""
    directory.mkdir()
    places = Places(str(directory), str(directory / "bird.ctl"))
    Path(places.main).write_text(text, encoding="utf-8")
    argv = tools.command("bird", "-f", "-c", places.main, "-s", places.socket, "-P", str(directory / "pid"))
    with open(directory / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(["ip", "netns", "exec", where, *argv], stdout=log, stderr=log)
    try:
        wait_until(lambda: os.path.exists(places.socket), START_TIMEOUT)
        yield places
    finally:
        process.terminate()
        process.wait(START_TIMEOUT)


@contextlib.contextmanager
def routed_fleet(tools, folder: Path, router: str, count: int = 2, text: str = FOREIGN) -> Iterator[dict[str, Places]]:
    """Hosts with BIRD and a router with a configuration; yields where the hosts' files are."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(fleet(count))
        stack.enter_context(bird(tools, OUTSIDE, folder / "outside", router))
        yield {
            f"node{number}": stack.enter_context(bird(tools, host(number), folder / f"node{number}", text))
            for number in range(1, count + 1)
        }


def program_of(tools) -> Run:
    """BIRD's program of the tools, as an engine runs it."""
    return lambda argv, text: subprocesses.run(tools.command(*argv), text)


def missing_program(argv: list[str], _text: str) -> str:
    """The same on a host where it is not in the path."""
    raise NotInstalled(argv[0], "is not installed")


def bring(plan: dict, places: dict[str, Places]) -> None:
    """Bring all hosts to the plan."""
    for number, (name, own) in enumerate(places.items(), start=1):
        apply(plan, name, host(number))
        reconcile_bird(render_bird(plan, name), write=True, places=own)


def learned(number: int, version: int) -> list[str]:
    """The blocks that a host has learned, each with its next hop."""
    text = run(host(number), "ip", f"-{version}", "route", "show", "table", "120", code=None)
    return sorted(" ".join(line.split()[:3]) for line in text.splitlines())
