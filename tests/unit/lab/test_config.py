# SPDX-License-Identifier: Apache-2.0
"""Hosts, their addresses, and the directories of a lab."""

import pytest
import yaml

from lab.config import DRIVERS, HOSTS, PROJECT, Lab, Network, cpu_percent, host_named, memory_megabytes
from lab.errors import LabError


def test_addresses_read_the_same_in_both_families():
    network = Network()
    assert network.addresses("underlay", 3) == ["198.18.1.3/24", "fd00:6864:1::3/64"]
    assert network.addresses("provider", 20) == ["198.18.2.20/24", "fd00:6864:2::20/64"]
    assert network.addresses("management", 1) == ["198.18.0.1/24"]


def test_the_prefix_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("LAB_NETWORK_PREFIX", "10.99")
    monkeypatch.setenv("LAB_NETWORK_PREFIX6", "fd12:3456")
    assert Network.from_environment().addresses("provider", 1) == ["10.99.2.1/24", "fd12:3456:2::1/64"]


@pytest.mark.parametrize("value", ["198.18.0.0/16", "banana", "300.1"])
def test_a_bad_prefix_is_refused(monkeypatch, value):
    monkeypatch.setenv("LAB_NETWORK_PREFIX", value)
    with pytest.raises(LabError, match="does not make a subnet"):
        Network.from_environment()


@pytest.mark.parametrize(("text", "percent"), [(None, None), ("", None), ("25", 25), ("150", 150)])
def test_limit_of_processor_time_comes_from_the_environment(monkeypatch, text, percent):
    monkeypatch.delenv("LAB_CPU_PERCENT", raising=False)
    if text is not None:
        monkeypatch.setenv("LAB_CPU_PERCENT", text)
    assert cpu_percent() == percent


@pytest.mark.parametrize("text", ["0", "-5", "2.5", "fast"])
def test_bad_limit_of_processor_time_is_refused(monkeypatch, text):
    monkeypatch.setenv("LAB_CPU_PERCENT", text)
    with pytest.raises(LabError, match="LAB_CPU_PERCENT is"):
        cpu_percent()


def test_mac_addresses_are_unique():
    macs = [host.mac(segment) for host in HOSTS for segment in host.segments]
    assert len(macs) == len(set(macs))


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_host_has_files_of_its_own(tmp_path, driver):
    lab = Lab(tmp_path)
    files = [lab.host_files(host, Network(), driver) for host in HOSTS]
    for name in ("etc/hostname", "etc/machine-id", "etc/openvswitch/system-id.conf", "etc/segments"):
        assert len({each[name] for each in files}) == len(HOSTS)
    assert len({each["etc/hosts"] for each in files}) == 1
    assert all(len(each["etc/machine-id"].strip()) == 32 for each in files)


def test_the_external_host_has_no_underlay_interface(tmp_path):
    text = Lab(tmp_path).host_files(host_named("external"), Network(), "nspawn")["etc/segments"]
    assert [line.split()[0] for line in text.splitlines()] == ["eth0", "eth2"]


def test_an_unknown_host_is_named_with_the_known_ones():
    with pytest.raises(LabError, match="there is no host node9; use one of node1, node2, node3, external"):
        host_named("node9")


def test_two_directories_are_two_labs(tmp_path):
    assert Lab(tmp_path / "a").key != Lab(tmp_path / "b").key


@pytest.mark.parametrize("name", ["a b", "a,b", "a:b"])
def test_directory_with_unsafe_characters_is_refused(tmp_path, name):
    with pytest.raises(LabError, match="set LAB_DIR or XDG_CACHE_HOME"):
        Lab(tmp_path / name)


def test_down_leaves_foreign_files(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "mine").write_text("x")
    Lab(tmp_path).forget(existed=False)
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "mine"}
    Lab(tmp_path).forget(existed=True)
    assert {path.name for path in tmp_path.iterdir()} == {"mine"}


def test_the_inventory_names_the_same_hosts():
    inventory = yaml.safe_load((PROJECT / "inventories/lab/hosts.yml").read_text())["all"]["children"]
    nodes, external = inventory["heddle_nodes"]["hosts"], inventory["heddle_external"]["hosts"]
    assert [*nodes, *external] == [host.name for host in HOSTS]
    for name, variables in nodes.items():
        expected = Network().addresses("underlay", host_named(name).number)
        found = [
            text.replace("{{ lab_prefix }}", "198.18").replace("{{ lab_prefix6 }}", "fd00:6864")
            for text in variables["heddle_underlay_addresses"]
        ]
        assert found == expected


@pytest.mark.parametrize(("text", "megabytes"), [(None, 1024), ("", 1024), ("512", 512), ("3000", 3000)])
def test_memory_of_hosts_comes_from_the_environment(monkeypatch, text, megabytes):
    monkeypatch.delenv("LAB_MEMORY_MB", raising=False)
    if text is not None:
        monkeypatch.setenv("LAB_MEMORY_MB", text)
    assert memory_megabytes() == megabytes


@pytest.mark.parametrize("text", ["0", "511", "-1024", "1G"])
def test_bad_memory_of_hosts_is_refused(monkeypatch, text):
    monkeypatch.setenv("LAB_MEMORY_MB", text)
    with pytest.raises(LabError, match=f"LAB_MEMORY_MB is '{text}'") as error:
        memory_megabytes()
    assert "at least 512" in error.value.remedy
