# SPDX-License-Identifier: Apache-2.0
"""The connection of a module to the state database: its options, their validation, and TLS.

The options are documented in `plugins/doc_fragments/state_database.py`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from ..ovsdb.protocol.client import Client, Unreachable
from ..ovsdb.protocol.remotes import Remote, Tls, parse_remotes
from .module_options import STATE_DATABASE, TLS_FILES
from .module_runner import UserError

__all__ = ["STATE_DATABASE", "state_database"]


@contextlib.contextmanager
def state_database(module, *, write: bool, required: bool = False) -> Iterator[Client | None]:
    """Connect to the state database that options of a module or Request name; the client is read-only without `write`.

    None when the database is local, does not exist, and nothing is to be written: a host may still be empty in check
    mode. With `required` that is an error. Raises UserError for options that do not fit together, for files that
    cannot be read, and when a connection with TLS fails; Unreachable when another one does.
    """
    socket = module.params["socket"]
    try:
        servers = parse_remotes(socket)
    except ValueError as error:
        raise UserError(f"socket: {error}") from error
    tls = _tls(socket, servers, {name: module.params[name] for name in TLS_FILES})
    if not (write or required) and _is_absent(servers):
        yield None
        return
    try:
        with Client(socket, read_only=not write, tls=tls) as client:
            yield client
    except Unreachable as error:
        if tls is None:
            raise
        raise UserError(
            f"{error}. Does the server run there with TLS? Its certificate must be signed by ca_cert, and its own CA "
            "certificate must have signed certificate"
        ) from error


def _is_absent(servers: tuple[Remote, ...]) -> bool:
    return all(server.scheme == "unix" and not os.path.exists(server.host) for server in servers)


def _tls(socket: str, servers: tuple[Remote, ...], files: dict[str, str | None]) -> Tls | None:
    """Return the files for TLS; None when no server needs them. UserError names all that is wrong with them."""
    secured = any(server.scheme == "ssl" for server in servers)
    missing = [name for name, path in files.items() if not path]
    if not secured:
        if len(missing) < len(files):
            given = ", ".join(name for name in files if name not in missing)
            raise UserError(f"{given}: only ssl:HOST:PORT uses TLS, and socket is {socket}")
        return None
    if missing:
        raise UserError(
            f"socket is {socket}, which needs private_key, certificate and ca_cert; missing: {', '.join(missing)}"
        )
    problems = [f"{name}: {problem}" for name, path in files.items() if (problem := _unreadable(path))]
    if problems:
        raise UserError("\n".join(problems))
    return Tls(files["private_key"], files["certificate"], files["ca_cert"])


def _unreadable(path: str) -> str:
    try:
        with open(path, "rb"):
            return ""
    except OSError as error:
        return f"{path}: {error.strerror}"
