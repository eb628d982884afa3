# SPDX-License-Identifier: Apache-2.0
"""What driver nspawn needs of the machine is asked for before a container is started."""

import pytest

from lab import console, nspawn
from lab.config import Lab, Network, host_named
from lab.errors import LabError


@pytest.fixture
def driver(monkeypatch, tmp_path):
    monkeypatch.setattr(nspawn.os, "geteuid", lambda: 0)
    return nspawn.Driver(Lab(tmp_path), Network(), None, tmp_path, {})


def test_a_machine_without_tun_is_refused_before_the_image_is_unpacked(driver, monkeypatch, tmp_path):
    monkeypatch.setattr(nspawn, "TUN", tmp_path / "tun")
    with pytest.raises(LabError, match=r"needs .*/tun; run: modprobe tun, or use DRIVER=uml"):
        driver.prepare(None)


def test_an_ordinary_user_is_refused(driver, monkeypatch):
    monkeypatch.setattr(nspawn.os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match=r"needs root; use DRIVER=uml, .*or vm where KVM works"):
        driver.prepare(None)


def test_a_host_is_tried_by_ssh_when_it_has_reported_that_it_listens(driver, monkeypatch):
    """A connection to a container without its addresses hangs for the seconds of ARP."""
    node, order = host_named("node1"), []
    driver.lab.logs.mkdir()
    driver.console(node).write_text("the boot before: lab-ready\n")
    started = []

    def start(_pid_file, _argv, log, **_options):
        started.append((driver.lab.directory / "node1" / "upper" / console.FILE).read_text())
        with open(log, "a") as stream:
            stream.write("boots\n")

    def said_ready(log, offset):
        order.append("console")
        if order.count("console") == 2:
            with open(log, "a") as stream:
                stream.write("lab-ready\n")
        return before(log, offset)

    before = console.said_ready
    monkeypatch.setattr(console, "said_ready", said_ready)
    monkeypatch.setattr(nspawn.Driver, "running", lambda *_: True)
    monkeypatch.setattr(nspawn.Driver, "holder", 1)
    monkeypatch.setattr(driver, "image", type("Image", (), {"root": "/image"}))
    monkeypatch.setattr(nspawn.processes, "start", start)
    monkeypatch.setattr(nspawn.ssh, "wait", lambda *_words, **_named: order.append("ssh"))
    driver.start(node)
    assert order == ["console", "console", "ssh"]
    assert started == [console.UNIT]


def test_a_host_of_an_earlier_version_reports_nothing_and_is_not_waited_for(driver, monkeypatch):
    monkeypatch.setattr(console, "booting", lambda *_: pytest.fail("waited for its console"))
    with driver.booting(host_named("node1")):
        pass
