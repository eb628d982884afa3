# SPDX-License-Identifier: Apache-2.0
"""The file resolv.conf of workloads' namespaces, which ip-netns(8) shows their programs in place of the host's.

Own are files whose first line is the owner's mark. A foreign file stays as it is, and a note has its name.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterator
from functools import partial

from ..common.change import Change
from ..common.files.atomic_file import replace_file
from ..types.netns_workload import Endpoint
from .step import Step

DIRECTORY = "/etc/netns"
# ip-netns(8) puts a namespace's file over this one, and leaves it out where there is none.
OF_HOST = "/etc/resolv.conf"
_SUBSTRATE, _KIND = "files", "resolv.conf"


def resolver_steps(endpoints: list[Endpoint], mark: str) -> list[Step]:
    """Return the steps to exactly the files of these namespaces, as far as the mark goes."""
    wanted = {one.namespace: f"# {mark}\n{one.resolver}" for one in endpoints if one.resolver}
    found = _found()
    steps = []
    for namespace in sorted(found.keys() - wanted.keys()):
        if _is_own(found[namespace], mark):
            change = _change("delete", namespace, found[namespace], None)
            steps.append(Step(change, partial(_remove, namespace)))
    for namespace, text in sorted(wanted.items()):
        before = found.get(namespace)
        if before != text and (before is None or _is_own(before, mark)):
            change = _change("create" if before is None else "update", namespace, before, text)
            steps.append(Step(change, partial(_write, namespace, text)))
    return steps


def resolver_notes(endpoints: list[Endpoint], mark: str) -> Iterator[str]:
    """Yield a note for each file that is not Heddle's where one of Heddle's is wanted, and for files without effect."""
    found = _found()
    if any(one.resolver for one in endpoints) and not os.path.exists(OF_HOST):
        yield f"this host has no {OF_HOST}, so programs of workloads resolve no names: create it, it may be empty"
    for one in endpoints:
        if one.resolver and one.namespace in found and not _is_own(found[one.namespace], mark):
            yield (
                f"{_path(one.namespace)} is not Heddle's and stays: names of Services and workloads need the search "
                "domains and a name server in it; remove the file to have it written"
            )


def _path(namespace: str) -> str:
    return f"{DIRECTORY}/{namespace}/{_KIND}"


def _found() -> dict[str, str]:
    """Return the text of all files by namespace; of what is no text file, nothing that could be a mark."""
    found = {}
    for path in glob.glob(_path("*")):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found[os.path.basename(os.path.dirname(path))] = file.read()
        except OSError:
            found[os.path.basename(os.path.dirname(path))] = ""
    return found


def _is_own(text: str, mark: str) -> bool:
    return text.startswith(f"# {mark}\n")


def _change(action: str, namespace: str, before: str | None, after: str | None) -> Change:
    sides = ({} if text is None else {"lines": text.splitlines()} for text in (before, after))
    return Change(_SUBSTRATE, action, _KIND, namespace, "", *sides)


def _write(namespace: str, text: str) -> None:
    os.makedirs(os.path.dirname(_path(namespace)), mode=0o755, exist_ok=True)
    replace_file(_path(namespace), text, mode=0o644, single_writer=True)


def _remove(namespace: str) -> None:
    """Remove the file, and the directories where nothing else is in them."""
    os.unlink(_path(namespace))
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(_path(namespace)))
        os.rmdir(DIRECTORY)
