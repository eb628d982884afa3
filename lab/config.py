# SPDX-License-Identifier: Apache-2.0
"""The lab's hosts and networks, and its directories."""

import contextlib
import hashlib
import ipaddress
import json
import os
import pathlib
import shutil
import uuid
from dataclasses import dataclass

from lab.errors import DamagedError, LabError

PROJECT = pathlib.Path(__file__).resolve().parent.parent
FILES = PROJECT / "lab" / "files"
DRIVERS = ("vm", "nspawn", "uml")
# What the stored state of a lab has with any driver.
STATE = ("driver", "reason", "missing_features", "image", "network")
# Those whose hosts are behind a management network of their own, with a kernel of their own.
MACHINES = ("vm", "uml")
SEGMENTS = ("management", "underlay", "provider")
INTERFACES = {"management": "eth0", "underlay": "eth1", "provider": "eth2"}
# Large enough for networks with jumbo frames: Geneve over IPv6 with OVN's option adds 78 bytes to a packet of 9000.
MTU = {"management": 1500, "underlay": 9100, "provider": 1500}
# A virtual machine's management interface sits on a network of its own, so all of them have the same address.
# Their MAC addresses must be equal as well: that network keeps sending to the first one that it received from.
MACHINE_NUMBER = 15
MACHINE_MAC = "02:68:64:00:00:0f"
MEMORY_MEGABYTES, LEAST_MEGABYTES = 1024, 512
# Characters that separate words in the command lines and files that paths end up in.
FORBIDDEN = set(' \t\n,:%"')


@dataclass(frozen=True)
class Host:
    """One host: its number is the last part of its addresses."""

    name: str
    number: int
    segments: tuple
    # Units of the image that only this host runs.
    services: tuple = ()

    def mac(self, segment):
        return f"02:68:64:00:{SEGMENTS.index(segment):02x}:{self.number:02x}"


HOSTS = (
    Host("node1", 1, SEGMENTS, ("standin-api.service",)),
    *(Host(f"node{number}", number, SEGMENTS) for number in (2, 3)),
    Host("external", 20, ("management", "provider"), ("external-http.service",)),
)


def host_named(name):
    for host in HOSTS:
        if host.name == name:
            return host
    raise LabError(f"there is no host {name}", f"use one of {', '.join(host.name for host in HOSTS)}")


def memory_megabytes():
    """The memory of each host with a kernel of its own (LAB_MEMORY_MB)."""
    text = os.environ.get("LAB_MEMORY_MB") or str(MEMORY_MEGABYTES)
    if not text.isdecimal() or int(text) < LEAST_MEGABYTES:
        raise LabError(
            f"LAB_MEMORY_MB is {text!r}", f"set it to a whole number of at least {LEAST_MEGABYTES}, or leave it out"
        )
    return int(text)


def cpu_percent():
    """The limit of each host's processor time in percent of one processor (LAB_CPU_PERCENT), None without a limit."""
    text = os.environ.get("LAB_CPU_PERCENT")
    if not text:
        return None
    if not text.isdecimal() or not int(text):
        raise LabError(f"LAB_CPU_PERCENT is {text!r}", "set it to a whole number of percent above 0, or leave it out")
    return int(text)


@dataclass(frozen=True)
class Network:
    """The lab's subnets: PREFIX.0.0/24 management, PREFIX.1.0/24 underlay, PREFIX.2.0/24 provider; IPv6 likewise."""

    prefix: str = "198.18"
    prefix6: str = "fd00:6864"

    @classmethod
    def from_environment(cls):
        network = cls(
            os.environ.get("LAB_NETWORK_PREFIX") or cls.prefix, os.environ.get("LAB_NETWORK_PREFIX6") or cls.prefix6
        )
        try:
            network.subnets()
        except ValueError as error:
            raise LabError(
                f"LAB_NETWORK_PREFIX or LAB_NETWORK_PREFIX6 does not make a subnet: {error}",
                f"write the first half of an IPv4 address, like {cls.prefix}, and the first two groups of an IPv6 "
                f"address, like {cls.prefix6}",
            ) from None
        return network

    def subnet(self, segment):
        return ipaddress.ip_network(f"{self.prefix}.{SEGMENTS.index(segment)}.0/24")

    def subnet6(self, segment):
        return ipaddress.ip_network(f"{self.prefix6}:{SEGMENTS.index(segment):x}::/64")

    def subnets(self):
        """Every subnet in use, by the name of its segment. Management has IPv4 only."""
        return {
            "management": [self.subnet("management")],
            "underlay": [self.subnet("underlay"), self.subnet6("underlay")],
            "provider": [self.subnet("provider"), self.subnet6("provider")],
        }

    def addresses(self, segment, number):
        """A host's addresses; its number reads the same in both families, so the external host is .20 and ::20."""
        numbers = {4: number, 6: int(str(number), 16)}
        return [f"{subnet[numbers[subnet.version]]}/{subnet.prefixlen}" for subnet in self.subnets()[segment]]


def owned(path):
    """Is it a directory of this user, and no link to one?"""
    return not path.is_symlink() and path.stat().st_uid == os.geteuid()


class Lab:
    """The directories of one lab, and its stored state."""

    def __init__(self, directory=None):
        chosen = directory or os.environ.get("LAB_DIR") or PROJECT / ".lab"
        self.directory = pathlib.Path(chosen).expanduser().absolute()
        self.key = hashlib.sha256(str(self.directory).encode()).hexdigest()[:8]
        self.cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "heddle"
        for path in (self.directory, self.cache):
            if FORBIDDEN & set(str(path)):
                raise LabError(
                    f'{path} has a blank or one of , : % " in its name, which QEMU, ssh and mount misread',
                    "set LAB_DIR or XDG_CACHE_HOME to another directory",
                )
        if self.directory.exists() and not self.directory.is_dir():
            raise LabError(f"{self.directory} is not a directory", "remove it, or set LAB_DIR to another directory")
        self.logs = self.directory / "logs"
        self.ssh_config = self.directory / "ssh_config"
        self.ssh_key = self.directory / "ssh_key"
        self._file = self.directory / "lab.json"

    def read(self):
        """The state of a lab that was brought up, or None; DamagedError when the file is not what `write` wrote."""
        try:
            state = json.loads(self._file.read_text())
            lacks = [key for key in STATE if key not in state]
            cause = f"it has no {', '.join(lacks)}" if lacks else ""
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            cause = str(error)
        if not cause and state["driver"] not in DRIVERS:
            cause = f"there is no driver {state['driver']}"
        if cause:
            raise DamagedError(
                f"{self._file} is damaged ({cause})",
                "run: python -m lab down, which removes what it finds, then: python -m lab up",
            )
        return state

    def write(self, state):
        temporary = self._file.with_suffix(".new")
        temporary.write_text(json.dumps(state, indent=2) + "\n")
        temporary.rename(self._file)

    def forget(self, existed):
        """Remove what the lab has put into its directory, and the directory unless it holds something else."""
        if existed:
            shutil.rmtree(self.logs, ignore_errors=True)
        for name in ("lab.json", "lab.new", "ssh_config", "ssh_key", "lock") if existed else ("lock",):
            (self.directory / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.directory.rmdir()

    def host_files(self, host, network, driver):
        """The files that make one host different from the others."""
        lines = []
        for segment in host.segments:
            number, mac = host.number, host.mac(segment)
            if driver in MACHINES and segment == "management":
                number, mac = MACHINE_NUMBER, MACHINE_MAC
            addresses = network.addresses(segment, number)
            lines.append(" ".join([INTERFACES[segment], mac, str(MTU[segment]), *addresses]))
        names = ["127.0.0.1 localhost", "::1 localhost"]
        for other in HOSTS:
            segment = "underlay" if "underlay" in other.segments else "provider"
            names += [f"{address.split('/')[0]} {other.name}" for address in network.addresses(segment, other.number)]
        return {
            "etc/hostname": f"{host.name}\n",
            # Without servers; ip-netns(8) puts the file of a workload's namespace over it.
            "etc/resolv.conf": "",
            "etc/hosts": "\n".join(names) + "\n",
            "etc/machine-id": uuid.uuid5(uuid.NAMESPACE_URL, f"{self.directory}/{host.name}/machine").hex + "\n",
            "etc/openvswitch/system-id.conf": f"{uuid.uuid5(uuid.NAMESPACE_URL, f'{self.directory}/{host.name}')}\n",
            "etc/segments": "\n".join(lines) + "\n",
        }
