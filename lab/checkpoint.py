# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: the disks of a lab's hosts, saved under a name and restored in seconds.

Hosts shut down in an orderly way before their disks are copied, and boot from the copies: every database and journal
is closed, and a restored host is a host that was rebooted. Running processes are not part of it.
"""

import json
import re
import shutil
import time

from lab import commands, image, overlap, ssh
from lab.config import HOSTS, Network
from lab.errors import LabError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}")
# Must be the same when a checkpoint is loaded: host names, addresses, machine ids and programs follow from these.
SAME = {"directory": "the lab's directory", "network": "the lab's network prefixes", "image": "the host image"}


def directory_of(lab, name):
    if not NAME.fullmatch(name):
        raise LabError(f"{name!r} cannot name a checkpoint", "use up to 41 letters, digits, dots, dashes, underscores")
    return lab.cache / f"checkpoint-{name}"


def names(lab):
    """The checkpoints that there are."""
    return sorted(path.parent.name.removeprefix("checkpoint-") for path in lab.cache.glob("checkpoint-*/state.json"))


def save(lab, stages, name):
    """Save the disks of all hosts; replaces a checkpoint of that name. Then the hosts run again."""
    target = directory_of(lab, name)
    with commands.lock(lab), image.locked(lab.cache / "checkpoint.lock"):
        state, driver = commands.require(lab)
        off = [host.name for host in HOSTS if not driver.running(host)]
        if off:
            raise LabError(f"{' and '.join(off)} does not run, so there is nothing to save", "run: python -m lab up")
        with stages.stage("shut down") as text:
            ssh.in_parallel(lambda host: shut_down(lab, driver, host), HOSTS)
            text.append(" ".join(host.name for host in HOSTS))
        try:
            with stages.stage("copy") as text:
                keep(lab, state, driver, target)
                text.append(str(target))
        finally:
            commands.bring_up(lab, stages, state, driver)


def shut_down(lab, driver, host):
    """Shut a host down."""
    ssh.wait(lab.ssh_config, host.name, "systemd-run --quiet --no-block --on-active=0 systemctl poweroff")
    ssh.hang_up(lab.ssh_config, host.name)
    deadline = time.monotonic() + ssh.PATIENCE
    while driver.running(host):
        if time.monotonic() > deadline:
            raise LabError(f"{host.name} does not shut down", f"read its console in {lab.logs / host.name}.log")
        time.sleep(0.05)


def keep(lab, state, driver, target):
    """Copy the hosts' files; the copy takes its name when it is complete."""
    with image.replacing(target) as work:
        for host in HOSTS:
            (work / host.name).mkdir()
            for name in driver.kept:
                copy(lab.directory / host.name / name, work / host.name / name)
        (work / "state.json").write_text(json.dumps({**state, "directory": str(lab.directory)}, indent=2) + "\n")
        shutil.rmtree(target, ignore_errors=True)


def copy(source, target):
    """Copy a disk or a tree with the metadata of its files; sparse parts stay sparse."""
    argv = ["cp", "--archive", "--sparse=always", "--reflink=auto", str(source), str(target)]
    image.run(argv, f"copy {source}")


def load(lab, stages, name):
    """Restore the hosts from a checkpoint; their present disks are lost."""
    source = directory_of(lab, name)
    with commands.lock(lab), image.locked(lab.cache / "checkpoint.lock"):
        saved = read(lab, source, name)
        state = lab.read()
        compare(saved, now(lab, state), name)
        if state is None:
            overlap.refuse(Network(*saved["network"]))
            lab.logs.mkdir(exist_ok=True)
            state = {key: value for key, value in saved.items() if key not in ("directory", "runtime")}
            current = {}
        elif state["driver"] != saved["driver"]:
            raise LabError(
                f"the lab runs with driver {state['driver']}, checkpoint {name} with {saved['driver']}",
                "run: python -m lab down, then load it",
            )
        else:
            current = state.get(saved["driver"], {})
        # A lab that is up has ports in use already; the rest belongs to the disks.
        ports = {"ports": current["ports"]} if "ports" in current else {}
        state[saved["driver"]] = saved.get(saved["driver"], {}) | ports
        driver = commands.open_driver(lab, state)
        # Errors must show before anything is lost.
        driver.image.require()
        driver.prepare(stages)
        with stages.stage("copy") as text:
            for host in HOSTS:
                driver.kill(host)
            # A lab whose disks are not all of the same moment must not be started by `up`.
            lab.write({**state, "loading": name})
            for host in HOSTS:
                put_back(lab, driver, source, host)
            text.append(str(source))
        commands.bring_up(lab, stages, state, driver)


def read(lab, source, name):
    try:
        return json.loads((source / "state.json").read_text())
    except FileNotFoundError:
        known = names(lab)
        there = f"there are {', '.join(known)}" if known else f"there is none; run: python -m lab save {name}"
        raise LabError(f"there is no checkpoint {name}", there) from None


def now(lab, state):
    """What a checkpoint is compared with: the lab that is up, else the one that would be brought up."""
    if state is not None:
        return {"directory": str(lab.directory), "network": state["network"], "image": state["image"]}
    network = Network.from_environment()
    return {"directory": str(lab.directory), "network": [network.prefix, network.prefix6], "image": image.digest()}


def compare(saved, current, name):
    """Raise LabError when a checkpoint is of another lab."""
    for key, what in SAME.items():
        if saved[key] != current[key]:
            was, is_now = (" ".join(found[key]) if key == "network" else found[key] for found in (saved, current))
            raise LabError(
                f"checkpoint {name} is of another lab: {what} was {was} and is {is_now}",
                f"bring up a lab and replace it: python -m lab save {name}",
            )


def put_back(lab, driver, source, host):
    directory = lab.directory / host.name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for name in driver.kept:
        copy(source / host.name / name, directory / name)
