# SPDX-License-Identifier: Apache-2.0
"""Virtual machines: the ports of their ssh, and the template that they are restored from."""

import contextlib
import socket

import pytest

from lab import commands, image, kvm, machine, ports, runtime, ssh, vm
from lab import template as templates
from lab.config import HOSTS, Lab, Network, host_named
from lab.errors import LabError
from lab.image import Image
from lab.stages import Stages

NODE = host_named("node1")
STATE = {"driver": "vm", "reason": "r", "missing_features": [], "image": "i", "network": ["198.18", "fd00:6864"]}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LAB_MEMORY_MB", raising=False)
    monkeypatch.setattr(machine, "version", lambda: "QEMU 10")
    found = Lab(tmp_path / "lab")
    found.logs.mkdir(parents=True)
    found.cache.mkdir(parents=True)
    return found


@pytest.fixture
def listener():
    """A port that another program has taken."""
    with socket.socket() as end:
        end.bind(("127.0.0.1", 0))
        end.listen()
        yield end.getsockname()[1]


def driver(lab, **settings):
    return vm.Driver(lab, Network(), Image(lab.cache, "i"), runtime.of(lab), {"vm": settings})


def test_ports_of_stopped_hosts_are_replaced_when_they_are_taken(lab, monkeypatch, listener):
    before = {host.name: ports.free() for host in HOSTS} | {"node1": listener}
    one = driver(lab, kvm=True, ports=dict(before))
    monkeypatch.setattr(one, "_alive", lambda host: host == NODE)
    one.prepare(Stages(None))
    assert one.settings["ports"] == before, "the host itself listens there"
    monkeypatch.setattr(one, "_alive", lambda host: False)
    one.prepare(Stages(None))
    assert one.settings["ports"]["node1"] != listener


def test_host_that_is_started_again_gets_a_port_that_is_free(lab, monkeypatch, listener):
    lab.write({**STATE, "vm": {"kvm": True, "ports": {host.name: listener for host in HOSTS}}})
    monkeypatch.setattr(vm.Driver, "connected", lambda self: True)
    monkeypatch.setattr(vm.Driver, "start", lambda self, host: started.append(self.settings["ports"][host.name]))
    monkeypatch.setattr(image.Image, "require", lambda self: self)
    started = []
    assert commands.start(lab, Stages(None), NODE)
    (port,) = started
    assert port != listener and f"Port {port}\n" in lab.ssh_config.read_text()
    assert lab.read()["vm"]["ports"]["node1"] == port


@pytest.mark.parametrize("name", ["vm", "uml", "nspawn"])
def test_a_host_cannot_start_without_the_network_of_the_lab(lab, name):
    lab.write({**STATE, "driver": name})
    with pytest.raises(LabError, match="the network between this lab's hosts has ended; run: python -m lab up"):
        commands.start(lab, Stages(None), NODE)


@pytest.fixture
def emulated(lab, monkeypatch):
    """A driver without KVM whose template is there, and the command lines that it starts QEMU with."""
    started = []

    class Monitor:
        def restore(self, _devices):
            pass

    @contextlib.contextmanager
    def launch(_pid_file, argv, _log, _monitor):
        started.append(argv)
        yield Monitor()

    monkeypatch.setattr(kvm, "works", lambda *_: False)
    monkeypatch.setattr(machine, "launch", launch)
    monkeypatch.setattr(machine, "make_disk", lambda *_: None)
    monkeypatch.setattr(machine, "make_initramfs", lambda *_: None)
    monkeypatch.setattr(ssh, "wait", lambda *_: "")
    monkeypatch.setattr(templates, "build", lambda *_: None)
    one = driver(lab)
    with open(lab.logs / "stages", "w") as stream:
        one.prepare(Stages(stream))
    one.started = started
    return one


def test_host_that_has_run_starts_with_another_size_of_memory(emulated, monkeypatch):
    emulated.start(NODE)
    assert "-incoming" in emulated.started[0]
    monkeypatch.setenv("LAB_MEMORY_MB", "2048")
    emulated.start(NODE)
    assert "-incoming" not in emulated.started[1] and "2048M" in emulated.started[1]


def test_host_that_has_not_run_is_not_restored_with_another_size_of_memory(emulated, monkeypatch):
    monkeypatch.setenv("LAB_MEMORY_MB", "2048")
    with pytest.raises(LabError, match="made with another LAB_MEMORY_MB, or by another QEMU; set LAB_MEMORY_MB as it"):
        emulated.start(NODE)
    assert not emulated.started


def test_template_whose_disk_is_the_base_of_others_must_be_there(emulated):
    emulated.start(NODE)
    (emulated.image.cache / f"template-{emulated.settings['template']}").rmdir()
    with pytest.raises(LabError, match="the template of this lab is gone; run: python -m lab down"):
        emulated.start(NODE)
