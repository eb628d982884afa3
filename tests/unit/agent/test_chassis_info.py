# SPDX-License-Identifier: Apache-2.0
"""The module `chassis_info` by its own entry, on a machine that need not be a chassis."""

from __future__ import annotations

import json
import os
import socket

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.chassis import chassis
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import HOST_FILE
from ansible_collections.heddle.ovn.plugins.module_utils.common.databases import VSWITCH_REMOTE
from tests.module_entry import run_module
from tests.pipeline import plan_of


@pytest.mark.skipif(os.path.exists(VSWITCH_REMOTE.removeprefix("unix:")), reason="this machine is a chassis")
def test_what_is_missing_is_reported_and_nothing_written(tmp_path):
    options = {"name": "node1", "encap_ips": ["127.0.0.1"], "datapath": "system"}
    found = run_module("chassis_info", tmp_path, check=False, **options)
    assert not found["changed"]
    assert any("br-int" in line for line in found["differences"])
    assert (found["datapath"], found["gateway"]) == ("system", {})
    assert found["chassis"] == "(chassis of node1, known once Open vSwitch runs)"
    assert not os.path.exists(HOST_FILE)


@pytest.mark.skipif(os.path.exists(VSWITCH_REMOTE.removeprefix("unix:")), reason="this machine is a chassis")
def test_a_difference_from_the_inventory_is_a_warning(tmp_path):
    found = run_module("chassis_info", tmp_path, name="node1", encap_ips=["127.0.0.1"], datapath="system")
    assert "differs from the inventory. The plan keeps the previously reported values" in str(found["warnings"])


def test_options_that_contradict_each_other_are_an_error(tmp_path):
    absent = f"none-{socket.gethostname()}"[:15]
    found = run_module(
        "chassis_info", tmp_path, name="node1", encap_ips=[], datapath="system",
        physical_networks={"plant": {"bridge": "br a", "uplink": absent}},
    )  # fmt: skip
    assert "bridge br a: choose a name of 1 to 15 letters" in found["msg"]


def test_a_host_without_open_vswitch_reports_the_plan_that_it_has(tmp_path, monkeypatch):
    """By it a state database that was lost is noticed."""
    stored = tmp_path / "plan.json"
    monkeypatch.setattr(chassis, "PLAN_FILE", str(stored))
    monkeypatch.setattr(chassis, "HOST_FILE", str(tmp_path / "host.json"))
    params = {"name": "node1", "encap_ips": ["198.18.1.11"]}

    def kept():
        return chassis._without_switch(params, write=False)[1]["kept_plan"]

    assert kept() is None
    stored.write_text(json.dumps({**plan_of(""), "revision": 7}))
    assert kept() == {"deployment": plan_of("")["deployment"], "revision": 7}


def test_a_host_without_open_vswitch_reports_its_nics(tmp_path, monkeypatch):
    """Address pools may not be in their subnets."""
    monkeypatch.setattr(chassis, "HOST_FILE", str(tmp_path / "host.json"))
    monkeypatch.setattr(chassis.kernel, "PYROUTE2_IMPORT_ERROR", None)
    monkeypatch.setattr(chassis, "smallest_mtu", lambda _ends: 1500)
    monkeypatch.setattr(chassis, "nic_addresses", lambda without: {"eth3": ["203.0.113.11/24"]} if not without else {})
    _outcome, facts = chassis._without_switch({"name": "node1", "encap_ips": []}, write=False)
    assert facts["other_addresses"] == {"eth3": ["203.0.113.11/24"]}
