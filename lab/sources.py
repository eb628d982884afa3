# SPDX-License-Identifier: Apache-2.0
"""Where this machine gets Debian packages from, and how its apt reaches that place.

The image is built from the machine's own mirror with the machine's own proxy and certificates, so that the lab works
wherever apt works.
"""

import os
import pathlib
import re
import subprocess
from dataclasses import dataclass

from lab.errors import LabError

SUITE = "trixie"
DEBIAN_SUITES = ("trixie", "bookworm", "forky", "sid", "stable", "oldstable", "testing", "unstable")
# Options of the machine's apt for access to a mirror. Others concern this machine's own packages.
CARRIED = re.compile(
    r"Acquire::(?:(?:https?|ftp|socks5h?)(?:::.+)?|Check-Valid-Until|Check-Date|Retries|ForceIPv[46]"
    r"|AllowInsecureRepositories|AllowWeakRepositories|Proxy-Auto-Detect|Max-FutureTime)"
)


@dataclass(frozen=True)
class Source:
    """One place that serves packages."""

    uri: str
    suites: tuple
    components: tuple
    options: tuple = ()

    def line(self, suite=SUITE, keyring=None):
        """The sources.list line for a suite, by default the image's; `keyring` when the source names no key itself."""
        pairs = self.options or ((("signed-by", keyring),) if keyring else ())
        options = " ".join(f"{key}={value}" for key, value in pairs)
        return f"deb {f'[{options}] ' if options else ''}{self.uri} {suite} main"


def parse_list(text):
    """Sources of a one-line-style file."""
    found = []
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^]]*)\]\s*)?(\S+)\s+(\S+)([^#]*)", line)
        if match:
            options, uri, suite, components = match.groups()
            pairs = tuple(tuple(word.split("=", 1)) for word in (options or "").split() if "=" in word)
            found.append(Source(uri, (suite,), tuple(components.split()), _kept(pairs)))
    return found


def parse_deb822(text):
    """Sources of a deb822-style file."""
    found = []
    for stanza in re.split(r"\n\s*\n", re.sub(r"(?m)^#.*\n?", "", text)):
        fields, name = {}, None
        for line in stanza.splitlines():
            if line[:1].isspace() and name:
                fields[name] += "\n" + line.strip()
            elif ":" in line:
                name, value = line.split(":", 1)
                name = name.strip().lower()
                fields[name] = value.strip()
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in ("no", "false"):
            continue
        options = _kept(tuple((key, value) for key, value in fields.items()))
        suites, components = fields.get("suites", ""), fields.get("components", "")
        for uri in fields.get("uris", "").split():
            found.append(Source(uri, tuple(suites.split()), tuple(components.split()), options))
    return found


def _kept(pairs):
    """The options that decide whether a signature is good; a key given inline stays behind."""
    return tuple((key, value) for key, value in pairs if key in ("signed-by", "trusted") and "\n" not in value)


def read_sources(etc="/etc/apt"):
    """Every enabled source of this machine."""
    directory = pathlib.Path(etc)
    found = []
    for path in [directory / "sources.list", *sorted((directory / "sources.list.d").glob("*"))]:
        if path.is_file() and path.suffix in (".list", ".sources"):
            found += (parse_deb822 if path.suffix == ".sources" else parse_list)(path.read_text())
    return found


def choose(sources):
    """The source that serves Debian's main archive: the image's own suite if one names it."""
    override = os.environ.get("LAB_APT_URI")
    if override:
        return Source(override, (SUITE,), ("main",))
    candidates = [
        source
        for source in sources
        if "main" in source.components
        and set(source.suites) & set(DEBIAN_SUITES)
        and "security" not in source.uri.rstrip("/").rsplit("/", 1)[-1]
        and not source.uri.startswith("cdrom:")
    ]
    if not candidates:
        raise LabError(
            "no apt source of this machine serves Debian's main archive",
            "set LAB_APT_URI to the address of a Debian mirror",
        )
    return min(candidates, key=lambda source: SUITE not in source.suites)


def apt_options(dump=None):
    """The machine's options that the build needs, as lines of apt.conf."""
    if dump is None:
        dump = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True).stdout
    options = []
    for line in dump.splitlines():
        match = re.fullmatch(r'(\S+) "(.+)";', line)
        if match and CARRIED.fullmatch(match[1]):
            options.append(line)
    return options
