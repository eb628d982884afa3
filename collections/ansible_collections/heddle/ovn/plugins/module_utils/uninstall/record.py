# SPDX-License-Identifier: Apache-2.0
"""The record of what a host was before the first change, which a role makes before it changes anything.

One section for each role, made once. Later runs only add what they are the first to name (a further package or NIC).
"""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..common.change import Change, Outcome
from ..common.databases import VSWITCH_REMOTE
from ..common.errors import EngineError, ProgramError
from ..common.files.atomic_file import replace_file
from ..common.files.service_files import full_name
from ..common.processes import subprocesses
from ..ovsdb.protocol.client import Client, OvsdbError
from ..ovsdb.values import map_pairs
from ..render.host.links_and_routes import NEIGHBOUR_LIMITS
from .footprint import FOOTPRINTS, LIBRARY, Footprint

RECORD_FILE = f"{LIBRARY}/before.json"
FORMAT = 1
# Settings that Heddle changes, and the value that it sets, for all devices (ip-sysctl.rst). `all` comes first in the
# record, because it sets the others.
SETTINGS = {
    ("net/ipv4/conf", "forwarding"): "1",
    ("net/ipv4/conf", "rp_filter"): "2",
    ("net/ipv4/conf", "src_valid_mark"): "1",
    ("net/ipv6/conf", "forwarding"): "1",
    ("net/ipv6/conf", "accept_ra"): "2",
    **{
        (folder, setting): limit.value
        for limit in NEIGHBOUR_LIMITS
        for folder, _device, setting in [limit.name.rsplit("/", 2)]
    },
}
_TEXT_LIMIT = 4096


@dataclass(frozen=True)
class Section:
    """What was there when a role first ran.

    `installed` and `manual` are names of packages, the latter those that a user asked for; `requested` those that the
    role installs. `units` has `is-enabled` and `is-active` of each unit, `paths` the text of small shared files, "" for
    other existing ones and None for missing ones. `interfaces` has `up`, `mtu` and `addresses` of each NIC that is
    attached to a bridge, `vswitch` the maps of the row Open_vSwitch, None without a database.
    """

    role: str
    installed: tuple[str, ...] = ()
    manual: tuple[str, ...] = ()
    requested: tuple[str, ...] = ()
    units: dict = field(default_factory=dict)
    users: dict = field(default_factory=dict)
    paths: dict = field(default_factory=dict)
    sysctls: dict = field(default_factory=dict)
    interfaces: dict = field(default_factory=dict)
    vswitch: dict | None = None


class Before:
    """All sections of a host, in the order in which they were made."""

    def __init__(self, sections: Iterable[Section] = ()) -> None:
        self.sections = tuple(sections)

    def __bool__(self) -> bool:
        return bool(self.sections)

    def of(self, role: str) -> Section | None:
        """Return the section of a role, None where it was never applied, or by a release without records."""
        return next((section for section in self.sections if section.role == role), None)

    def first(self, part: str) -> dict:
        """Return a mapping of all sections; the earliest section that has a key decides."""
        found: dict = {}
        for section in self.sections:
            found = getattr(section, part) | found
        return found

    def had_package(self, name: str) -> bool:
        """Return whether a package was installed before, and not by Heddle.

        Between two roles only a package that a user asked for counts: others came as dependencies of the first role.
        """
        requested: set[str] = set()
        for position, section in enumerate(self.sections):
            there = section.manual if position else section.installed
            if name in there and name not in requested:
                return True
            requested |= set(section.requested)
        return False

    def was_dependency(self, name: str) -> bool:
        """Return whether a package that a role asks for was there before only as a dependency of others."""
        asked = any(name in section.requested for section in self.sections)
        first = next((section for section in self.sections if name in section.installed), None)
        return asked and self.had_package(name) and first is not None and name not in first.manual

    def lacked(self, paths: Iterable[str]) -> bool:
        """Return whether it is recorded that none of these files was there."""
        known = self.first("paths")
        return all(path in known and known[path] is None for path in paths)

    @property
    def requested(self) -> list[str]:
        """Packages that roles have installed; without those that were there before."""
        names = {name for section in self.sections for name in section.requested}
        return sorted(name for name in names if not self.had_package(name))


def read_record(path: str = RECORD_FILE) -> Before:
    """Return the record of this host, empty when there is none; EngineError for a damaged or a later one."""
    try:
        with open(path, encoding="utf-8") as text:
            content = json.load(text)
        if content["format"] != FORMAT:
            raise EngineError(
                f"{path} has format {content['format']}, and this release reads format {FORMAT}: use the release that "
                "installed this host"
            )
        return Before(
            Section(
                **{name: tuple(value) if isinstance(value, list) else value for name, value in section.items()},
            )
            for section in content["sections"]
        )
    except FileNotFoundError:
        return Before()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(
            f"{path} is damaged ({error}): restore it from a backup of the host, or remove it; without it only what is "
            "marked as Heddle's is removed"
        ) from error


def keep_record(
    role: str, packages: list[str], interfaces: list[str], *, write: bool, path: str = RECORD_FILE,
    run: subprocesses.Run = subprocesses.run,
) -> Outcome:  # fmt: skip
    """Add what the role is about to change, as it is now, to the record; what is recorded already stays.

    A host on which the role was applied by a release without records gets no section for it: what was before it is not
    known any more.
    """
    before, footprint = read_record(path), FOOTPRINTS[role]
    section = before.of(role)
    if section is None:
        if os.path.exists(footprint.sign):
            return Outcome()
        section = _observed(role, footprint, run)
        sections = [*before.sections, section]
    else:
        sections = list(before.sections)
    position = next(place for place, one in enumerate(sections) if one.role == role)
    known = {name for one in before.sections for name in one.interfaces}
    more = {name: found for name in interfaces if name not in known and (found := _interface(name, run))}
    names = sorted({*section.requested, *(package.partition("=")[0] for package in packages)})
    sysctls = section.sysctls | (_later_sysctls(section.sysctls) if role == "node" else {})
    updated = Section(
        **{**section.__dict__, "requested": tuple(names), "interfaces": section.interfaces | more, "sysctls": sysctls},
    )
    if before.of(role) == updated:
        return Outcome()
    sections[position] = updated
    if write:
        _write(path, sections)
    action = "update" if before.of(role) else "create"
    was = _shown(before.of(role)) if before.of(role) else {}
    return Outcome((Change("file", action, "record", f"{path} ({role})", "", was, _shown(updated)),))


def _later_sysctls(recorded: dict[str, str]) -> dict[str, str]:
    """Return the settings of which nothing is recorded: an earlier release did not change them."""
    known = set(map(_setting, recorded))
    return {name: value for name, value in read_sysctls().items() if _setting(name) not in known}


def _setting(name: str) -> tuple[str, str]:
    """Return the name of a setting without the device."""
    folder, _device, setting = name.rsplit("/", 2)
    return folder, setting


def _shown(section: Section) -> dict:
    return {"packages": list(section.requested), "interfaces": section.interfaces, "installed": len(section.installed)}


def _write(path: str, sections: list[Section]) -> None:
    content = {"format": FORMAT, "sections": [section.__dict__ for section in sections]}
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        replace_file(path, json.dumps(content, indent=1) + "\n", mode=0o644, single_writer=True)
    except OSError as error:
        raise EngineError(f"{path} cannot be written: {error.strerror}") from error


def _observed(role: str, footprint: Footprint, run: subprocesses.Run) -> Section:
    return Section(
        role=role,
        installed=installed_packages(run),
        manual=tuple(sorted(_output(run, ["apt-mark", "showmanual"]).split())),
        units={unit: unit_state(unit, run) for unit in footprint.units},
        users={user: has_user(user) for user in footprint.users},
        paths={path: _text(path) for path in map(os.path.expanduser, (*footprint.shared, *footprint.folders))},
        sysctls=read_sysctls() if role == "node" else {},
        vswitch=_vswitch() if role == "node" else None,
    )


def installed_packages(run: subprocesses.Run = subprocesses.run) -> tuple[str, ...]:
    """Return the names of the installed packages, sorted."""
    lines = _output(run, ["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package}\\n"]).splitlines()
    return tuple(sorted({line.partition(" ")[2] for line in lines if line.startswith("installed ")}))


def unit_state(unit: str, run: subprocesses.Run = subprocesses.run) -> list[str]:
    """Return whether a unit is enabled and active, as systemctl(1) prints it; "not-found" when there is none."""
    properties = dict.fromkeys(("LoadState", "UnitFileState", "ActiveState"), "")
    text = _output(run, ["systemctl", "show", f"--property={','.join(properties)}", full_name(unit)])
    properties |= dict(line.partition("=")[::2] for line in text.splitlines())
    if properties["LoadState"] == "not-found":
        return ["not-found", properties["ActiveState"]]
    return [properties["UnitFileState"], properties["ActiveState"]]


def has_user(name: str) -> bool:
    """Return whether this host has a user."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def read_sysctls(root: str = "/proc/sys") -> dict[str, str]:
    """Return the settings that Heddle may change, by name with `/`."""
    found = {}
    for folder, setting in SETTINGS:
        devices = os.listdir(f"{root}/{folder}") if os.path.isdir(f"{root}/{folder}") else []
        for device in sorted(devices, key=lambda one: (one != "all", one)):
            name = f"{folder}/{device}/{setting}"
            value = read_sysctl(name, root)
            if value is not None:
                found[name] = value
    return found


def read_sysctl(name: str, root: str = "/proc/sys") -> str | None:
    """Return a kernel setting, None when there is none of that name."""
    try:
        with open(f"{root}/{name}", encoding="ascii") as value:
            return value.read().strip()
    except OSError:
        return None


def _interface(name: str, run: subprocesses.Run) -> dict | None:
    """Return a NIC's state; None when there is none of that name, which the chassis module reports."""
    try:
        with open(f"/sys/class/net/{name}/flags", encoding="ascii") as flags:
            up = bool(int(flags.read(), 16) & 1)
        with open(f"/sys/class/net/{name}/mtu", encoding="ascii") as mtu:
            found = {"up": up, "mtu": int(mtu.read())}
    except (OSError, ValueError):
        return None
    lists = json.loads(_output(run, ["ip", "-json", "address", "show", "dev", name]) or "[]")
    addresses = [
        f"{one['local']}/{one['prefixlen']}"
        for link in lists
        for one in link.get("addr_info", ())
        if one.get("scope") == "global"
    ]
    return {**found, "addresses": addresses}


def _vswitch(open_client: Callable[[], Client] = lambda: Client(VSWITCH_REMOTE, read_only=True)) -> dict | None:
    """Return `external_ids` and `other_config` of Open vSwitch; None where it does not run."""
    columns = ["external_ids", "other_config"]
    try:
        with open_client() as client:
            rows = client.transact(
                "Open_vSwitch", [{"op": "select", "table": "Open_vSwitch", "where": [], "columns": columns}]
            )[0]["rows"]
    except (OSError, OvsdbError):
        return None
    return {name: map_pairs(rows[0][name]) for name in columns} if rows else None


def _text(path: str) -> str | None:
    """Return the text of a small file, "" for anything else that exists, None for what is missing."""
    if not os.path.lexists(path):
        return None
    try:
        if os.path.isfile(path) and os.path.getsize(path) <= _TEXT_LIMIT:
            with open(path, encoding="utf-8") as text:
                return text.read()
    except (OSError, UnicodeDecodeError):
        pass
    return ""


def _output(run: subprocesses.Run, argv: list[str]) -> str:
    """Return what a program prints; "" where it is missing or fails, as on systems without apt."""
    try:
        return run(argv, "")
    except ProgramError:
        return ""
