# SPDX-License-Identifier: Apache-2.0
"""Which distributions and releases hosts may have: os-release(5)."""

from __future__ import annotations

import shlex

# Their packages have the versions that the roles install.
SUPPORTED = {"debian": ("13",)}


def release_problem(host: str, text: str) -> str:
    """Return one line for a host whose /etc/os-release has another distribution or release, else ""."""
    found = dict(word.split("=", 1) for word in shlex.split(text, comments=True) if "=" in word)
    name, release = found.get("ID", ""), found.get("VERSION_ID", "")
    if release in SUPPORTED.get(name, ()):
        return ""
    described = found.get("PRETTY_NAME") or name or "an unknown distribution"
    wanted = " or ".join(f"{known.capitalize()} {' or '.join(releases)}" for known, releases in SUPPORTED.items())
    return f"{host} has {described} and Heddle needs {wanted}; install that, or take the host out of its groups"
