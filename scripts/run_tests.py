# SPDX-License-Identifier: Apache-2.0
"""All tests, or the groups named on the command line: lint, sanity, unit, live, lab, upgrade, vm; uml only by name.

The lab groups start labs of their own, so a lab that `make lab` made is left alone.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.stages import PROJECT, Stage, run_all

BIN = Path(sys.executable).parent
PLAY = str(PROJECT / "scripts" / "play")
LAB = [sys.executable, "-m", "lab"]
MOLECULE = [str(BIN / "molecule")]
PYTEST = [str(BIN / "pytest"), "--durations=10"]
REPORT = [sys.executable, "-m", "scripts.report"]
SECOND = "second"
SECOND_LAB = ("test_localnet.py", "test_playbooks.py", "test_provider.py", "test_state.py", "test_virtual_machine.py")


def lab_environment(name: str) -> dict[str, str]:
    """Return the environment of a lab that belongs to the tests: a driver, or the second lab of containers."""
    directory = PROJECT / ".cache" / f"test-lab-{name}"
    found = {"LAB_DIR": str(directory), "DRIVER": "nspawn" if name == SECOND else name}
    if name == SECOND:
        found |= {
            "LAB_NETWORK_PREFIX": "198.19",
            "LAB_NETWORK_PREFIX6": "fd00:6865",
            "LAB_REPORT": f"{directory}-report",
        }
    return found


def lint() -> list[Stage]:
    """Linters."""
    return [
        Stage("ruff", [str(BIN / "ruff"), "check", "."]),
        Stage("ruff format", [str(BIN / "ruff"), "format", "--check", "--quiet", "."]),
        Stage("yamllint", [str(BIN / "yamllint"), "--strict", "."]),
        Stage("ansible-lint", [str(BIN / "ansible-lint"), "--offline", "--strict"]),
        Stage(
            "changelog fragments",
            [str(BIN / "antsibull-changelog"), "lint"],
            directory="collections/ansible_collections/heddle/ovn",
        ),
        Stage("collection tarball", [str(PROJECT / "scripts" / "collection")]),
    ]


def sanity() -> list[Stage]:
    """The sanity tests of ansible-test."""
    return [Stage("ansible-test sanity", [str(PROJECT / "scripts" / "sanity")])]


def unit() -> list[Stage]:
    """Tests without servers; the notebook on sample data is among them."""
    return [Stage("unit, golden, notebook", [str(BIN / "pytest"), "-n", "2", "tests/unit", "tests/golden"])]


def live() -> list[Stage]:
    """Tests against real ovsdb-server, ovn-northd, ovn-trace, QEMU, taken from the host image."""
    return [
        Stage("packages of the lab", [*LAB, "packages"]),
        Stage("host image", [*LAB, "image"]),
        Stage("live", [sys.executable, "-m", "scripts.ovn_root", str(BIN / "pytest"), "tests/live"]),
    ]


def lab() -> list[Stage]:
    """The real playbooks on containers, through molecule, and tests that disturb the lab."""
    environment = lab_environment("nspawn")
    return [
        Stage("packages of the lab", [*LAB, "packages"]),
        # Not by molecule, which remembers that it created the hosts even when the lab was removed by other means.
        Stage("containers: hosts", [*LAB, "up"], environment),
        # With all differences, as a careful operator asks for them; the later stages say only what changed.
        Stage("containers: molecule check", [*MOLECULE, "check"], {**environment, "ANSIBLE_DIFF_ALWAYS": "true"}),
        *(
            Stage(f"containers: molecule {verb}", [*MOLECULE, verb], environment)
            for verb in ("converge", "idempotence", "verify")
        ),
        Stage("containers: lab tests", [*PYTEST, "tests/lab", *ignored(SECOND_LAB)], environment),
        Stage("containers: molecule cleanup", [*MOLECULE, "cleanup"], environment),
    ]


def second_lab() -> list[Stage]:
    """Those of the tests on containers that take as long as the rest, on a lab of their own beside the first."""
    environment = lab_environment(SECOND)
    return [
        Stage("second lab: hosts", [*LAB, "up"], environment),
        Stage("second lab: site", [PLAY, "playbooks/site.yml"], environment),
        Stage("second lab: lab tests", [*PYTEST, *(f"tests/lab/{name}" for name in SECOND_LAB)], environment),
    ]


def ignored(names: tuple[str, ...]) -> list[str]:
    """Return pytest's arguments that leave files out."""
    return [f"--ignore=tests/lab/{name}" for name in names]


def upgrade() -> list[Stage]:
    """The upgrade of Layer2 networks on containers that began with the old topology."""
    environment = lab_environment("nspawn")
    settings = '{"heddle_settings": {"layer2_topology": "gateway-router"}}'
    return [
        Stage("packages of the lab", [*LAB, "packages"]),
        # The topology is chosen when a cluster begins, so it has to be a new one.
        Stage("upgrade: no hosts", [*LAB, "down"], environment, alone=True),
        Stage("upgrade: hosts", [*LAB, "up"], environment),
        Stage("upgrade: site with the old topology", [PLAY, "playbooks/site.yml", "-e", settings], environment),
        Stage("upgrade: verify", [PLAY, "playbooks/verify.yml"], environment),
        Stage("upgrade: tests", [*PYTEST, "tests/upgrade"], environment),
    ]


def vm() -> list[Stage]:
    """The real playbooks on virtual machines, in both gateway modes: kernel datapath, kernel Geneve, VRFs."""
    return machines("vm", "virtual machines")


def uml() -> list[Stage]:
    """The same on User Mode Linux."""
    return machines("uml", "User Mode Linux")


def machines(driver: str, name: str) -> list[Stage]:
    """Return the stages for hosts with a kernel of their own."""
    environment = lab_environment(driver)
    local = "heddle_gateway_mode=local"
    verify = [PLAY, "playbooks/verify.yml"]
    return [
        Stage("packages of the lab", [*LAB, "packages", "--driver", driver]),
        Stage(f"{name}: hosts", [*LAB, "up"], environment, alone=True),
        Stage(f"{name}: site", [PLAY, "playbooks/site.yml"], environment),
        Stage(f"{name}: verify", verify, environment),
        Stage(f"{name}: audit", [PLAY, "playbooks/audit.yml"], environment),
        Stage(f"{name}: report", [*REPORT, "01_first_light", "02_gateways"], environment),
        Stage(f"{name}: site, local gateway mode", [PLAY, "playbooks/site.yml", "-e", local], environment),
        Stage(f"{name}: verify, local gateway mode", verify, environment),
        Stage(f"{name}: audit, local gateway mode", [PLAY, "playbooks/audit.yml"], environment),
        Stage(f"{name}: engines", [*PYTEST, "tests/lab/test_engines_on_a_host.py"], environment),
    ]


def removal(name: str) -> Stage:
    """Remove a lab of the tests, whatever happened to it."""
    return Stage(f"remove the {name} lab", [*LAB, "down"], lab_environment(name))


GROUPS = {
    "lint": lint, "sanity": sanity, "unit": unit, "live": live, "lab": lab, "upgrade": upgrade, "vm": vm, "uml": uml,
}  # fmt: skip
# Its kernel takes some minutes to build where there is none yet.
BY_NAME = {"uml"}
# One processor is enough for the first two, and the next two leave one half idle.
ASIDE, BESIDE = {"lint", "sanity"}, {"unit", "live"}
LABS = {"lab": ("nspawn", SECOND), "upgrade": ("nspawn",), "vm": ("vm",), "uml": ("uml",)}


def main() -> int:
    """Run the groups; the exit code is 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help=f"any of {', '.join(GROUPS)}; default: all but {', '.join(BY_NAME)}"
    )
    groups = parser.parse_args().groups or [group for group in GROUPS if group not in BY_NAME]
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        parser.error(f"unknown group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    beside = [group for group in groups if group in ASIDE] if {*groups} & BESIDE else []
    stages = [stage for group in groups if group not in beside for stage in GROUPS[group]()]
    unique = [stage for number, stage in enumerate(stages) if stage not in stages[:number]]
    aside = [stage for group in beside for stage in GROUPS[group]()] + (second_lab() if "lab" in groups else [])
    labs = dict.fromkeys(name for group in groups for name in LABS.get(group, ()))
    return run_all(unique, go_on=True, always=[removal(name) for name in labs], aside=aside)


if __name__ == "__main__":
    sys.exit(main())
