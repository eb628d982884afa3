# SPDX-License-Identifier: Apache-2.0
"""The groups of tests.

A group is a function that returns its stages. What a stage waits for is in the stage (scripts/stages.py); what a group
waits for, and which labs are removed after it, is in the table `GROUPS`. The lab groups start labs of their own, so a
lab that `make lab` made is left alone.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.stage_files import slug
from scripts.stages import PROJECT, REPORT, Stage

BIN = Path(sys.executable).parent
PLAY = str(PROJECT / "scripts" / "play")
OVN_ROOT = (sys.executable, "-m", "scripts.ovn_root")
LAB = [sys.executable, "-m", "lab"]
MOLECULE = [str(BIN / "molecule")]
NOTEBOOKS = [sys.executable, "-m", "scripts.report"]
WALKTHROUGHS = [sys.executable, "-m", "scripts.walkthroughs"]
SECOND = "second"
SECOND_LAB = (
    "test_localnet.py", "test_playbooks.py", "test_provider.py", "test_state.py", "test_virtual_machine.py",
    "test_virtual_machine_service.py",
)  # fmt: skip
# Before the first installation, in the second lab.
EMPTY_LAB = "test_uninstall.py"
VERIFY_RESULT = "test_verify_result.py"
# Tests with the mark `long` are in `make test-long`.
SHORT = ("-m", "not long")
# The live tests of Egress in a guest whose kernel has FoU.
EGRESS_GUEST = "test_egress_guest.py"


def pytest(name: str, *arguments: str, environment: dict[str, str] | None = None, prefix: tuple = ()) -> Stage:
    """Return a stage that runs tests, with progress and results for machines."""
    results = f"--junitxml={REPORT / 'junit' / slug(name)}.xml"
    command = [*prefix, sys.executable, "-m", "pytest", "-p", "scripts.pytest_progress", results, "--durations=10"]
    return Stage(name, [*command, *arguments], environment or {})


def play(name: str, playbooks: str, environment: dict[str, str], *arguments: str) -> Stage:
    """Return a stage that runs playbooks, named by words, on a lab; a failed one is the last."""
    return Stage(name, [PLAY, *(f"playbooks/{word}.yml" for word in playbooks.split()), *arguments], environment)


def lab_environment(name: str) -> dict[str, str]:
    """Return the environment of a lab that belongs to the tests: a driver, or the second lab of containers."""
    directory = PROJECT / ".cache" / f"test-lab-{name}"
    found = {"LAB_DIR": str(directory), "DRIVER": "nspawn" if name == SECOND else name}
    if name == SECOND:
        found |= {"LAB_NETWORK_PREFIX": "198.19", "LAB_NETWORK_PREFIX6": "fd00:6865"}
    # Labs run side by side, and tests read the reports of playbooks. Molecule writes to the project's directory.
    if name != "nspawn":
        found["LAB_REPORT"] = f"{directory}-report"
    return found


def mitogen() -> dict[str, str]:
    """Return the environment in which Ansible runs tasks by Mitogen, as scripts/play does."""
    package = Path(importlib.util.find_spec("ansible_mitogen").origin).parent
    return {
        "ANSIBLE_STRATEGY_PLUGINS": str(package / "plugins" / "strategy"),
        "ANSIBLE_STRATEGY": "mitogen_linear",
        "ANSIBLE_DEPRECATION_WARNINGS": "false",
    }


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
    ]


def sanity() -> list[Stage]:
    """The sanity tests of ansible-test, on one processor: each worker of pylint reads all modules anew."""
    one = str(max(os.sched_getaffinity(0)))
    return [Stage("ansible-test sanity", ["taskset", "--cpu-list", one, str(PROJECT / "scripts" / "sanity")])]


def unit() -> list[Stage]:
    """Tests without servers; the notebook on sample data is among them."""
    return [
        pytest("unit, golden, notebook", "-n", "2", "tests/unit", "tests/golden", *SHORT),
        pytest("collection from its tarball", "tests/standalone/test_tarball.py"),
    ]


def unit_long() -> list[Stage]:
    """Those without servers that run whole playbooks."""
    return [pytest("long unit tests", "-n", "2", "tests/unit", "-m", "long")]


def browser() -> list[Stage]:
    """Pages and JupyterLab in Debian's Chromium; skipped where it cannot be installed."""
    return [
        Stage("packages of the browser", [sys.executable, "-m", "scripts.browser_packages"]),
        pytest("browser", "tests/browser"),
    ]


def docs() -> list[Stage]:
    """The documentation, without a warning; its links and generated pages are checked by unit tests."""
    return [Stage("documentation", [str(PROJECT / "scripts" / "make_docs")])]


def packages() -> list[Stage]:
    """What labs and live tests need of the distribution."""
    return [Stage("packages of the lab", [*LAB, "packages", "--driver", "all"], terminal=True)]


def image() -> list[Stage]:
    """The image of the hosts, once for all labs and for the live tests."""
    return [Stage("host image", [*LAB, "image"])]


def kernel() -> list[Stage]:
    """The kernel of User Mode Linux, which takes some minutes once."""
    return [
        Stage("packages of the kernel", [*LAB, "packages", "--driver", "uml"], terminal=True),
        Stage("kernel of User Mode Linux", [*LAB, "kernel"]),
    ]


def live() -> list[Stage]:
    """Tests against real ovsdb-server, ovn-northd, ovn-trace, QEMU, taken from the host image."""
    # Two at a time, as most of them wait for programs that they start; those of a file share what they start. In the
    # order of tests/live/conftest.py: pytest-xdist would begin with the files that have most tests.
    workers = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
    return [pytest("live", *workers, "tests/live", *SHORT, prefix=OVN_ROOT)]


def live_long() -> list[Stage]:
    """The benches, and more random sets of network policies than in each run, traced and with packets."""
    sets = {
        "traced": ("test_random_policies.py", "HEDDLE_POLICY_SETS", "4000"),
        "with packets": ("test_random_packets.py", "HEDDLE_POLICY_PACKET_BATCHES", "12"),
    }
    return [
        pytest("benches with the smallest load", "tests/live", "-m", "long", prefix=OVN_ROOT),
        *(
            pytest(
                f"more sets of policies, {name}", f"tests/live/policy/{file}", prefix=OVN_ROOT,
                environment={variable: number},
            )
            for name, (file, variable, number) in sets.items()
        ),
    ]  # fmt: skip


def lab() -> list[Stage]:
    """The real playbooks on containers, through molecule, and tests that disturb the lab."""
    environment = lab_environment("nspawn")
    # Molecule has an ansible.cfg of its own.
    molecule = {**environment, "ANSIBLE_STDOUT_CALLBACK": "heddle.ovn.progress"}
    return [
        # Not by molecule, which remembers that it created the hosts even when the lab was removed by other means.
        Stage("containers: hosts", [*LAB, "up"], environment),
        # With all differences (--diff); the later stages print only what changed.
        Stage(
            "containers: molecule check", [*MOLECULE, "check"], {**molecule, **mitogen(), "ANSIBLE_DIFF_ALWAYS": "true"}
        ),
        # This one with the strategy of Ansible itself; the others with that of scripts/play, which is faster.
        Stage("containers: molecule converge", [*MOLECULE, "converge"], molecule),
        *(
            Stage(f"containers: molecule {verb}", [*MOLECULE, verb], {**molecule, **mitogen()})
            for verb in ("idempotence", "verify")
        ),
        pytest(
            "containers: lab tests",
            *("tests/lab", *(f"--ignore=tests/lab/{name}" for name in (*SECOND_LAB, EMPTY_LAB, EGRESS_GUEST)), *SHORT),
            environment=environment,
        ),
        Stage("containers: molecule cleanup", [*MOLECULE, "cleanup"], molecule),
    ]


def second_lab() -> list[Stage]:
    """Those of the tests on containers that take as long as the rest, on a lab of their own beside the first."""
    environment = lab_environment(SECOND)
    return [
        Stage("second lab: hosts", [*LAB, "up"], environment),
        pytest("second lab: uninstall", f"tests/lab/{EMPTY_LAB}", environment=environment),
        # The first of them installs.
        Stage("second lab: walkthroughs", WALKTHROUGHS, environment),
        pytest("second lab: lab tests", *(f"tests/lab/{name}" for name in SECOND_LAB), *SHORT, environment=environment),
    ]


def old_topology(name: str, *more: str, driver: str = SECOND, mode: str = "shared") -> list[Stage]:
    """Return the stages of a cluster that begins with the old Layer2 topology, and further playbooks."""
    environment = lab_environment(driver)
    settings = '{"heddle_settings": {"layer2_topology": "gateway-router"}}'
    return [
        # The topology is chosen when a cluster begins, so it has to be a new one.
        Stage(f"{name}: no hosts", [*LAB, "down"], environment),
        Stage(f"{name}: hosts", [*LAB, "up"], environment),
        play(
            f"{name}: {', '.join(('site with the old topology', *more))}",
            " ".join(("site", *more)),
            environment,
            *("-e", settings, "-e", f"heddle_gateway_mode={mode}"),
        ),
    ]


def upgrade() -> list[Stage]:
    """The upgrade of Layer2 networks on containers that began with the old topology."""
    return [
        # The last run begins with packets between all workloads, on nodes that have the old topology.
        *old_topology("upgrade"),
        pytest("upgrade: tests", "tests/upgrade", *SHORT, environment=lab_environment(SECOND)),
    ]


def upgrade_long() -> list[Stage]:
    """The same with all tests, which build on each other."""
    return [
        *old_topology("whole upgrade", "verify"),
        pytest("whole upgrade: tests", "tests/upgrade", environment=lab_environment(SECOND)),
    ]


def upgrade_local() -> list[Stage]:
    """The same in local gateway mode, which needs VRFs: on User Mode Linux."""
    name, environment = "upgrade in local gateway mode", {**lab_environment("uml"), "HEDDLE_UPGRADE_MODE": "local"}
    return [
        *old_topology(name, "verify", driver="uml", mode="local"),
        pytest(f"{name}: tests", "tests/upgrade", environment=environment),
    ]


def vm() -> list[Stage]:
    """The real playbooks on virtual machines, in both gateway modes: kernel datapath, kernel Geneve, VRFs."""
    return machines("vm", "virtual machines")


def uml() -> list[Stage]:
    """The same on User Mode Linux."""
    return [
        *machines("uml", "User Mode Linux"),
        # A guest of its own, without a lab.
        pytest("User Mode Linux: Egress", f"tests/lab/{EGRESS_GUEST}"),
    ]


def machines(driver: str, name: str) -> list[Stage]:
    """Return the stages for hosts with a kernel of their own."""
    environment = lab_environment(driver)
    local = ("-e", "heddle_gateway_mode=local")
    return [
        Stage(f"{name}: hosts", [*LAB, "up"], environment),
        play(f"{name}: site, verify, audit", "site verify audit", environment),
        Stage(f"{name}: report", [*NOTEBOOKS, "01_first_light", "02_gateways"], environment),
        play(f"{name}: site, verify, audit in local gateway mode", "site verify audit", environment, *local),
        pytest(f"{name}: engines", "tests/lab/test_engines_on_a_host.py", environment=environment),
    ]


def uml_tests() -> list[Stage]:
    """All tests of a converged lab on User Mode Linux."""
    environment = lab_environment("uml")
    return [
        Stage("User Mode Linux: hosts again", [*LAB, "up"], environment),
        play("User Mode Linux: site again", "site", environment),
        Stage("User Mode Linux: walkthrough of Egress", [*WALKTHROUGHS, "--tunnels"], environment),
        pytest("User Mode Linux: lab tests", "tests/lab", environment=environment),
    ]


def standalone() -> list[Stage]:
    """The life of a fleet with the tarball of the collection and ansible-core alone, from hosts without Heddle."""
    environment = lab_environment("nspawn")
    return [
        # The topology that the test upgrades from is chosen when a cluster begins, so it has to be a new one.
        Stage("standalone: no hosts", [*LAB, "down"], environment),
        Stage("standalone: hosts", [*LAB, "up"], environment),
        pytest("standalone: from site to uninstall", "tests/standalone/test_fleet.py", environment=environment),
    ]


def walkthroughs() -> list[Stage]:
    """All walkthroughs, which upgrade a cluster that began with the old Layer2 topology, and mistakes in notebooks."""
    environment = lab_environment(SECOND)
    return [
        *old_topology("walkthroughs"),
        Stage("walkthroughs: all", [*WALKTHROUGHS, "--long"], environment),
        pytest("walkthroughs: tests", "tests/walkthroughs", environment=environment),
    ]


def lab_long() -> list[Stage]:
    """The tests on containers that take too long for every change; of those, the results of verify ten times each."""
    environment = lab_environment("nspawn")
    repeated = {**environment, "HEDDLE_REPEAT": "10"}
    return [
        Stage("long lab tests: hosts", [*LAB, "up"], environment),
        play("long lab tests: site", "site", environment),
        pytest("long lab tests: verify ten times", f"tests/lab/{VERIFY_RESULT}", environment=repeated),
        pytest(
            "long lab tests", "tests/lab", f"--ignore=tests/lab/{VERIFY_RESULT}", "-m", "long", environment=environment
        ),
    ]


def fresh_quick() -> list[Stage]:
    """The commands of the README on a minimal Debian 13, with the image of this machine."""
    return [Stage("fresh Debian 13", [sys.executable, "-m", "scripts.fresh", "--quick"])]


def fresh() -> list[Stage]:
    """The commands of the README on minimal Debian systems, with nothing of this machine."""
    return [Stage("fresh Debian 12 and 13", [sys.executable, "-m", "scripts.fresh"])]


@dataclass(frozen=True)
class Group:
    """Stages that run one after the other, when the groups named in `after` are over.

    With `hosts_first` all stages need the first one. `labs` are removed at the end, whatever happened.
    A group `with_group` is run when that one is. `long` ones are not part of `make test`. Those with `root` need it for
    containers; others, as an ordinary user runs them, leave out single tests that need it.
    """

    stages: Callable[[], list[Stage]]
    after: tuple[str, ...] = ()
    hosts_first: bool = False
    labs: tuple[str, ...] = ()
    with_group: tuple[str, ...] = ()
    long: bool = False
    root: bool = False


# Groups that start hosts, or take programs from their image.
_HOSTS = (
    "live", "lab", "upgrade", "uml", "fresh-quick", "vm", "uml-tests", "lab-long", "standalone", "fresh",
    "live-long", "walkthroughs", "upgrade-long", "upgrade-local",
)  # fmt: skip
# Of the stages that can begin, the first one here does: what fails quickly, then the longest chains, then short ones,
# which begin when the long ones leave room.
GROUPS = {
    "packages": Group(packages, with_group=_HOSTS),
    "lint": Group(lint),
    "image": Group(image, after=("packages",), with_group=_HOSTS),
    "unit": Group(unit, after=("packages",)),
    "kernel": Group(kernel, after=("packages",), hosts_first=True, with_group=("uml", "uml-tests", "upgrade-local")),
    "lab": Group(lab, after=("image",), hosts_first=True, labs=("nspawn",), root=True),
    "second lab": Group(second_lab, after=("image",), hosts_first=True, labs=(SECOND,), with_group=("lab",), root=True),
    "live": Group(live, after=("image",)),
    "upgrade": Group(upgrade, after=("image", "second lab"), labs=(SECOND,), root=True),
    "uml": Group(uml, after=("image", "kernel"), hosts_first=True, labs=("uml",)),
    "fresh-quick": Group(fresh_quick, after=("image",), root=True),
    "sanity": Group(sanity, after=("lint",)),
    "browser": Group(browser, after=("packages",)),
    "uml-tests": Group(uml_tests, after=("image", "kernel"), hosts_first=True, labs=("uml",), long=True),
    "live-long": Group(live_long, after=("image",), long=True),
    "docs": Group(docs, long=True),
    "unit-long": Group(unit_long, long=True),
    "lab-long": Group(lab_long, after=("image",), hosts_first=True, labs=("nspawn",), long=True, root=True),
    "standalone": Group(standalone, after=("image", "lab-long"), labs=("nspawn",), long=True, root=True),
    "walkthroughs": Group(walkthroughs, after=("image", "live-long"), labs=(SECOND,), long=True, root=True),
    "upgrade-long": Group(upgrade_long, after=("image", "walkthroughs"), labs=(SECOND,), long=True, root=True),
    "upgrade-local": Group(upgrade_local, after=("image", "kernel", "uml-tests"), labs=("uml",), long=True),
    # Emulation leaves no time for others.
    "vm": Group(vm, after=("upgrade-local", "standalone", "upgrade-long"), hosts_first=True, labs=("vm",), long=True),
    "fresh": Group(fresh, after=("vm",), long=True, root=True),
}
