# SPDX-License-Identifier: Apache-2.0
"""The verbs of the lab, the same for all drivers."""

import concurrent.futures
import os
import shutil
import time

from lab import image as images
from lab import impair, kernel, kernel_probe, kvm, nspawn, overlap, packages, probe, runtime, ssh, uml, vm
from lab.config import HOSTS, Network, cpu_percent
from lab.errors import DamagedError, LabError

DRIVERS = {driver.name: driver for driver in (vm.Driver, nspawn.Driver, uml.Driver)}


def open_driver(lab, state):
    """The driver of a lab that exists."""
    runtime.require_pid_files(lab, state.get("runtime"))
    return driver_of(lab, state)


def driver_of(lab, state):
    """The same, also when the pid files of its hosts are gone."""
    network = Network(*state["network"])
    image = images.Image(lab.cache, state["image"])
    directory = runtime.of(lab, state.get("runtime"))
    state["runtime"] = str(directory)
    return DRIVERS[state["driver"]](lab, network, image, directory, state)


def require(lab):
    """State and driver of a lab that exists, for verbs that need one."""
    state = lab.read()
    if state is None:
        raise LabError("there is no lab", "run: python -m lab up")
    return state, open_driver(lab, state)


def require_running(driver, host):
    """Refuse what would change nothing: the host has no processes."""
    if not driver.running(host):
        raise LabError(f"{host.name} does not run", f"run: python -m lab start {host.name}")


def lock(lab):
    return images.locked(lab.directory / "lock")


def up(lab, stages, wanted):
    """Bring all hosts up; what is up already stays as it is."""
    with lock(lab):
        state = lab.read()
        if state is None:
            state = create(lab, stages, wanted)
        elif wanted not in ("auto", state["driver"]):
            raise LabError(
                f"the lab runs with driver {state['driver']}, not {wanted}",
                "run: python -m lab down, or choose another directory with LAB_DIR",
            )
        elif "loading" in state:
            raise LabError(
                f"loading checkpoint {state['loading']} was cut off, so the hosts' disks do not fit together",
                f"run: python -m lab load {state['loading']}, or: python -m lab down",
            )
        driver = open_driver(lab, state)
        if driver.connected() and all(driver.running(host) for host in HOSTS):
            ssh.in_parallel(lambda host: ssh.wait(lab.ssh_config, host.name), HOSTS)
            return False
        overlap.refuse(driver.network)
        driver.image.require()
        bring_up(lab, stages, state, driver)
        return True


def bring_up(lab, stages, state, driver):
    """Start what does not run of a lab that is decided."""
    stopped = [host for host in HOSTS if not driver.running(host)]
    driver.prepare(stages)
    lab.write(state)
    with stages.stage("boot") as text:
        driver.connect()
        ssh.write_key(lab.ssh_key, driver.image)
        write_ssh_config(lab, driver)
        for host in stopped:
            ssh.hang_up(lab.ssh_config, host.name)
        ssh.in_parallel(lambda host: boot(driver, host), stopped)
        text.append(" ".join(host.name for host in stopped) + f" ({driver.name})")


def write_ssh_config(lab, driver):
    ssh.write_config(lab.ssh_config, lab.ssh_key, driver.runtime, driver.endpoints())


def boot(driver, host):
    """Start a host, limited to LAB_CPU_PERCENT percent of a processor if that is set."""
    percent = cpu_percent()
    driver.start(host)
    if percent is not None:
        impair.throttle(driver.group(host), impair.pids(driver.pid_file(host)), percent)


def create(lab, stages, wanted):
    """Decide what a new lab is made of, and write that down."""
    network = Network.from_environment()
    overlap.refuse(network)
    name, reason, missing = decide(lab, wanted, lambda: try_kvm(lab, stages))
    stages.line("driver", f"{name}: {reason}", 0)
    packages.ensure((name,), stages, builds_kernel(lab, (name,)))
    settings = {}
    if name == "uml":
        image, made = build_with_kernel(lab, stages)
        settings["uml"] = {"kernel": made.name}
    else:
        image = build(lab, stages)
    state = {
        "driver": name,
        "reason": reason,
        "missing_features": missing if name == "nspawn" else [],
        "image": image.name,
        "network": [network.prefix, network.prefix6],
        "runtime": str(runtime.of(lab)),
        **settings,
    }
    lab.logs.mkdir(exist_ok=True)
    lab.write(state)
    return state


def decide(lab, wanted, ask_kvm):
    """(driver, reason, features that this kernel does not have). `ask_kvm` is called only when it matters."""
    missing = probe.missing_features()
    works = wanted == "auto" and kvm.accessible() and ask_kvm()
    cached = kernel.cached(lab.cache) is not None
    return *probe.choose(wanted, missing, os.geteuid() == 0, works, cached), missing


def builds_kernel(lab, drivers):
    """Must the kernel of driver uml be built for these drivers?"""
    return "uml" in drivers and kernel.cached(lab.cache) is None


def packages_for(lab, wanted):
    """The drivers whose packages `up` needs with this wish; those of KVM as well when KVM has to be tried."""
    state = lab.read()
    if state is not None:
        return (state["driver"],)
    return (decide(lab, wanted, lambda: known_kvm(lab) is not False)[0],)


def known_kvm(lab):
    """Does KVM run a guest, as far as it is known without a trial? None if it is not."""
    if not kvm.accessible():
        return False
    image = images.Image(lab.cache, images.digest())
    return None if probe.lacks([kvm.machine.QEMU]) else kvm.remembered(lab.cache, image)[1]


def try_kvm(lab, stages):
    """Does KVM run a guest? It is the image's kernel that is tried, with QEMU."""
    packages.ensure(("vm",), stages)
    image = build(lab, stages)
    known = kvm.remembered(lab.cache, image)[1]
    if known is None:
        with stages.stage("kvm") as text:
            known = kvm.works(lab.cache, image)
            text.append("runs a guest" if known else "does not run a guest")
    return known


def build(lab, stages):
    with stages.stage("image") as text:
        image, built = images.ensure(lab.cache, stages.progress("image"))
        text.append(f"{'built' if built else 'cached'} {image.name}")
    return image


def build_with_kernel(lab, stages):
    """The image, and beside it the kernel of driver uml, which is tried with the image's programs."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        image = pool.submit(build, lab, stages)
        with stages.stage("kernel") as text:
            show = stages.progress("kernel")
            found, built = kernel.ensure(lab.cache, lambda new: kernel_probe.attempt(new, image.result()), show)
            text.append(f"{'built' if built else 'cached'} {found.name}, Linux {found.release()}")
        return image.result(), found


def down(lab):
    """Remove every trace; True when there was something."""
    if not lab.directory.is_dir() and not runtime.existing(lab):
        return False
    with lock(lab):
        drivers = drivers_to_remove(lab)
        if drivers and lab.ssh_config.exists():
            ssh.in_parallel(lambda host: ssh.hang_up(lab.ssh_config, host.name), HOSTS)
        for driver in drivers:
            driver.destroy()
        if drivers:
            runtime.end_left(lab)
        stays = [text for driver in drivers for host in HOSTS for text in impair.remove(driver.group(host))]
        for directory in {*runtime.existing(lab), *(driver.runtime for driver in drivers)}:
            shutil.rmtree(directory)
        lab.forget(bool(drivers))
    if stays:
        raise LabError(
            f"the lab is removed except for cgroups: {', '.join(dict.fromkeys(stays))}",
            "end the processes listed in their files cgroup.procs, then remove the directories with rmdir",
        )
    return bool(drivers)


def drivers_to_remove(lab):
    """The drivers of the lab: all when its state is damaged or was not written, for each knows its files by name."""
    try:
        state = lab.read()
        if state is not None:
            return [driver_of(lab, state)]
        if not runtime.existing(lab):
            return []
    except DamagedError:
        pass
    image = images.Image(lab.cache, "")
    directory = next(iter(runtime.existing(lab)), None) or runtime.of(lab)
    return [driver(lab, Network(), image, directory, {}) for driver in DRIVERS.values()]


def status(lab):
    """What there is, as plain data."""
    state = lab.read()
    if state is None:
        return {"up": False, "hosts": []}
    driver = open_driver(lab, state)
    hosts = []
    for host in HOSTS:
        addresses = {name: driver.network.addresses(name, host.number) for name in host.segments[1:]}
        hosts.append({"name": host.name, "running": driver.running(host), **addresses})
    return {
        "up": all(host["running"] for host in hosts),
        "driver": state["driver"],
        "reason": state["reason"],
        "missing_features": state["missing_features"],
        "image": state["image"],
        "image_is_current": state["image"] == images.digest(),
        "directory": str(lab.directory),
        "ssh_config": str(lab.ssh_config),
        "hosts": hosts,
    }


def start(lab, stages, host):
    """Start a host that was killed; False when it runs."""
    with lock(lab):
        state, driver = require(lab)
        if driver.running(host):
            return False
        if not driver.connected():
            raise LabError("the network between this lab's hosts has ended", "run: python -m lab up")
        driver.image.require()
        ssh.hang_up(lab.ssh_config, host.name)
        driver.prepare(stages)
        lab.write(state)
        write_ssh_config(lab, driver)
        boot(driver, host)
        return True


def kill(lab, host):
    """Cut a host's power; False when it did not run."""
    with lock(lab):
        _, driver = require(lab)
        ssh.hang_up(lab.ssh_config, host.name)
        was = driver.running(host)
        driver.kill(host)
        return was


def reboot(lab, host):
    """Let a host reboot itself in an orderly way, and wait until it is back."""
    with lock(lab):
        _, driver = require(lab)
        require_running(driver, host)
        read_boot = "cat /proc/sys/kernel/random/boot_id"
        before = ssh.wait(lab.ssh_config, host.name, read_boot)
        # In the background: the connection must not be part of what the shutdown waits for.
        with driver.booting(host):
            ssh.run(lab.ssh_config, host.name, "systemd-run --quiet --no-block --on-active=0 systemctl reboot")
            ssh.hang_up(lab.ssh_config, host.name)
        deadline = time.monotonic() + ssh.PATIENCE
        while time.monotonic() < deadline:
            done = ssh.run(lab.ssh_config, host.name, read_boot)
            if done is not None and done.returncode == 0 and done.stdout != before:
                return
            ssh.hang_up(lab.ssh_config, host.name)
            time.sleep(0.2)
        raise LabError(f"{host.name} has not come back", f"read its console in {lab.logs / host.name}.log")


def partition(lab, host, cut):
    """Cut a host off from underlay and provider, or join it again; ssh goes on working."""
    with lock(lab):
        _, driver = require(lab)
        driver.partition(host, cut)


def throttle(lab, host, percent):
    """Limit a host to so many percent of a processor; None lifts the limit."""
    with lock(lab):
        _, driver = require(lab)
        if percent is not None:
            require_running(driver, host)
        impair.throttle(driver.group(host), impair.pids(driver.pid_file(host)), percent)


def pause(lab, host, paused):
    """Let all processes of a host stand still, or run again."""
    with lock(lab):
        _, driver = require(lab)
        if paused:
            require_running(driver, host)
        impair.pause(impair.pids(driver.pid_file(host)), paused)


def lose(lab, loss, blackhole):
    """Lose so many percent of all frames on underlay and provider, and large ones between two hosts."""
    with lock(lab):
        _, driver = require(lab)
        driver.impair(loss, blackhole)
