# SPDX-License-Identifier: Apache-2.0
"""docs/support.md: what is tested, by topology, gateway mode and address family.

A cell is tested when the lab's manifests have such a network with workloads and a stage of scripts/suite.py runs
verify on the lab in that gateway mode: verify sends packets on every network that a workload is on. What goes between
hosts has tests of its own, which are named here.
"""

from __future__ import annotations

from pathlib import Path

from ansible_collections.heddle.ovn.plugins.module_utils.api import read_manifests
from scripts.suite import GROUPS

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = (4, 6)
_HEAD = """# What works where

Generated from the manifests of the lab and the stages of `scripts/suite.py`. *tested*: `make test` sends packets on
such a network with `verify.yml`, to what must be reachable and to what must not. A dash: no such network is in the lab.
Secondary networks have no gateway, so the gateway mode does not matter for them.
"""


# Between hosts: what, and by the family of the underlay the test (file, function) that sends packets.
_BETWEEN_HOSTS = {
    "networks of OVN, Geneve": {
        4: ("tests/lab/test_network_life.py", "test_two_cluster_networks_that_select_one_namespace"),
        6: ("tests/lab/test_ipv6_underlay.py", "test_the_encapsulation_is_chosen_over_ipv6"),
    },
    "`heddle_encapsulation_type: auto`": {
        4: ("tests/live/underlay/test_probes.py", "test_a_port_that_is_closed_in_one_direction"),
        6: ("tests/lab/test_ipv6_underlay.py", "test_the_encapsulation_is_chosen_over_ipv6"),
    },
    "check of paths while the cluster runs": {
        4: ("tests/lab/test_encapsulation.py", "test_a_path_that_shrinks_is_reported_with_the_pair_and_the_size"),
        6: ("tests/lab/test_ipv6_underlay.py", "test_a_path_that_shrinks_is_reported"),
    },
    "MeshNetwork": {
        4: ("tests/live/mesh/test_mesh.py", "test_frames_pass_between_all_hosts"),
        6: ("tests/live/mesh/test_mesh.py", "test_frames_pass_between_all_hosts"),
    },
    "MeshNetwork over its fallback": {
        4: ("tests/live/mesh/test_fallback.py", "test_path_that_swallows_large_packets_in_one_direction"),
        6: ("tests/live/mesh/test_fallback.py", "test_path_without_vxlan"),
    },
    "MeshNetwork with ESP": {
        4: ("tests/lab/test_mesh_encryption.py", "test_the_wire_has_esp_only_and_no_echo_is_lost_while_keys_change"),
        6: ("tests/lab/test_ipv6_underlay.py", "test_esp_over_ipv6"),
    },
}  # fmt: skip
_BETWEEN_HOSTS_HEAD = """
## Between hosts

By the address family of the underlay (`heddle_encap_ips`). *tested* as above; *long*: by `make test-long`.

| | IPv4 | IPv6 |
|---|---|---|
"""


def between_hosts(what: str, family: int) -> str:
    """Return the cell of what goes between hosts; `family` is that of the underlay.

    ValueError for a test that is not there.
    """
    file, name = _BETWEEN_HOSTS[what][family]
    text = (ROOT / file).read_text()
    if f"def {name}(" not in text:
        raise ValueError(f"{file} has no {name}")
    return "long" if "pytestmark = pytest.mark.long" in text else "tested"


def verified_modes() -> dict[str, list[str]]:
    """Return the stages of `make test` that run verify on the lab, by gateway mode."""
    found: dict[str, list[str]] = {"shared": [], "local": []}
    for group in GROUPS.values():
        if not group.long:
            for stage in group.stages():
                words = " ".join(map(str, stage.command))
                if "verify.yml" in words or "molecule verify" in stage.name:
                    found["local" if "heddle_gateway_mode=local" in words else "shared"].append(stage.name)
    return found


def lab_networks() -> dict[tuple[str, str], set[int]]:
    """Return the address families of the lab's networks that workloads are on, by topology and role."""
    files = [(path.name, path.read_text()) for path in sorted((ROOT / "inventories/lab/manifests").rglob("*.yml"))]
    resources, problems = read_manifests(files)
    assert not problems, problems
    found: dict[tuple[str, str], set[int]] = {("Layer3", "Primary (default network)"): {4, 6}}
    for resource in resources:
        if resource.kind in ("UserDefinedNetwork", "ClusterUserDefinedNetwork"):
            families = found.setdefault((resource.spec["topology"], resource.spec["role"]), set())
            families |= {_family(subnet) for subnet in resource.spec["subnets"]}
    return found


def _family(subnet: str | dict) -> int:
    """Return 4 or 6; a Layer3 network's subnet is a mapping with `cidr`."""
    return 6 if ":" in (subnet["cidr"] if isinstance(subnet, dict) else subnet) else 4


def support_page() -> str:
    """Return the page in Markdown."""
    modes, networks = verified_modes(), lab_networks()
    rows = []
    for (topology, role), families in sorted(networks.items()):
        cells = []
        for mode in modes:
            for family in FAMILIES:
                tested = family in families and modes[mode]
                cells.append("tested" if tested else "—")
        rows.append(f"| {topology} | {role} | {' | '.join(cells)} |\n")
    head = "| topology | role | " + " | ".join(f"{mode}, IPv{family}" for mode in modes for family in FAMILIES) + " |\n"
    line = "|---|---|" + "---|" * (len(modes) * len(FAMILIES)) + "\n"
    stages = "".join(f"- {mode}: {', '.join(names)}\n" for mode, names in modes.items())
    cells = {what: [between_hosts(what, family) for family in FAMILIES] for what in _BETWEEN_HOSTS}
    between = "".join(f"| {what} | {' | '.join(found)} |\n" for what, found in cells.items())
    verified = f"\nStages that run verify:\n\n{stages}"
    return f"{_HEAD}\n{head}{line}{''.join(rows)}{verified}{_BETWEEN_HOSTS_HEAD}{between}"
