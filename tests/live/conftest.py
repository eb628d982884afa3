# SPDX-License-Identifier: Apache-2.0
"""Real databases and daemons in a temporary directory, without root and without services.

Programs and schemas come from `PATH` and `/usr/share`, or from the root directory that `HEDDLE_OVN_ROOT` names: an
extracted Debian, for instance, whose programs are run with its own loader and libraries. `HEDDLE_KEEP=1` keeps the
directories. The header of a run lists the versions that are tested.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent import follow_ups, northd_recompute
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import Client, Unreachable

SCHEMAS = {
    "OVN_Northbound": "ovn/ovn-nb.ovsschema",
    "OVN_Southbound": "ovn/ovn-sb.ovsschema",
    "Open_vSwitch": "openvswitch/vswitch.ovsschema",
}
START_TIMEOUT = 120.0
# Half a minute and more each.
_LONGEST = ("test_random_policies.py", "test_fallback.py", "test_moved_connections.py", "test_routing.py")


class Toolbox:
    """The programs of Open vSwitch and OVN: where they are, and how they are called."""

    def __init__(self, root: Path | None) -> None:
        self.root = root
        self.prefix: list[str] = []
        self._empty: dict[Path, bytes] = {}
        if root:
            loaders = sorted(root.glob("usr/lib/*/ld-linux-*")) + sorted(root.glob("lib/ld-linux-*"))
            libraries = sorted(
                {str(loader.parent) for loader in loaders} | set(map(str, root.glob("usr/lib/*-linux-*")))
            )
            # The cache is this machine's: it names libraries of this machine.
            options = ["--inhibit-cache", "--library-path", ":".join(libraries)]
            self.prefix = [str(loaders[0]), *options] if loaders else []

    def command(self, name: str, *arguments: str) -> list[str]:
        """The argument vector that runs a program."""
        if not self.root:
            found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        else:
            places = [self.root / "usr" / folder / name for folder in ("bin", "sbin")]
            found = next((str(place) for place in places if place.exists()), None)
        if found is None:
            where = self.root or "PATH"
            pytest.fail(f"{name} is not in {where}: install ovn-central and openvswitch-switch, or set HEDDLE_OVN_ROOT")
        return [*self.prefix, found, *arguments]

    def run(self, name: str, *arguments: str) -> str:
        """Run a program to its end and return what it printed; fails the test when it fails."""
        done = subprocess.run(self.command(name, *arguments), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{name} {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def library(self, name: str) -> str:
        """A library as LD_PRELOAD takes it; fails the test when the root directory does not have it."""
        if not self.root:
            return name
        found = sorted(self.root.glob(f"usr/lib/*/{name}"))
        if not found:
            pytest.fail(f"{name} is not in {self.root}")
        return str(found[0])

    def schema(self, database: str) -> Path:
        """The schema file of a database."""
        return (self.root or Path("/")) / "usr/share" / SCHEMAS[database]

    def empty_database(self, schema: Path) -> bytes:
        """The file of an empty database; `ovsdb-tool` makes it once per schema."""
        if schema not in self._empty:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "empty.db")
                self.run("ovsdb-tool", "create", str(file), str(schema))
                self._empty[schema] = file.read_bytes()
        return self._empty[schema]

    def version(self, name: str) -> str:
        """The first line of `--version`."""
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                self.command(name, "--version"), capture_output=True, text=True, timeout=120, check=False
            )
            return done.stdout.partition("\n")[0]
        return f"{name}: cannot be run"


class Server:
    """A running ovsdb-server with one database."""

    def __init__(self, tools: Toolbox, folder: Path, database: str, schema: Path, **environment: str) -> None:
        self.tools, self.folder, self.database = tools, folder, database
        self.remote = f"unix:{folder / f'{database}.sock'}"
        self.file = folder / f"{database}.db"
        if not self.file.exists():
            self.file.write_bytes(tools.empty_database(schema))
        self.process = start(
            tools, folder, database, "ovsdb-server", f"--remote=p{self.remote}", "--no-chdir", str(self.file),
            environment=environment,
        )  # fmt: skip
        wait_for(self.answers, f"ovsdb-server of {database}", self.process)

    def answers(self) -> bool:
        """Whether the server takes connections."""
        try:
            self.client().close()
        except Unreachable:
            return False
        return True

    def client(self, read_only: bool = False, timeout: float = 30) -> Client:
        """A new connection; `read_only` refuses every write before it is sent."""
        return Client(self.remote, timeout=timeout, read_only=read_only)

    def rows(self, table: str, *columns: str) -> list[dict]:
        """The rows of a table, in the order of their content; without columns all of them but `_version`."""
        select = {"op": "select", "table": table, "where": []}
        if columns:
            select["columns"] = ["_uuid", *columns]
        with self.client() as client:
            rows = client.transact(self.database, [select])[0]["rows"]
        return sorted(({key: row[key] for key in row if key != "_version"} for row in rows), key=str)

    def dump(self) -> dict[str, list[dict]]:
        """All rows of all tables that have any."""
        with self.client() as client:
            tables = sorted(client.get_schema(self.database)["tables"])
        return {table: rows for table in tables if (rows := self.rows(table))}

    def transact(self, *operations: dict) -> list:
        """Write without an owner mark, as a foreign client."""
        with self.client() as client:
            return client.transact(self.database, list(operations))


def start(
    tools: Toolbox, folder: Path, label: str, name: str, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.Popen:
    """Start a daemon that writes its log into the folder; the caller ends it. `environment` is added to the own one."""
    log = folder / f"{label}.log"
    control = folder / f"{label}.ctl"
    options = (f"--log-file={log}", f"--unixctl={control}", "-vconsole:off")
    return subprocess.Popen(
        tools.command(name, *options, *arguments),
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    )


def stop(process: subprocess.Popen) -> None:
    """End a daemon."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for(condition, what: str, process: subprocess.Popen | None = None) -> None:
    """Wait until something holds; fails the test after `START_TIMEOUT` seconds or when the process has ended."""
    deadline = time.monotonic() + START_TIMEOUT
    while not condition():
        if process is not None and process.poll() is not None:
            pytest.fail(f"{what} ended with status {process.returncode}")
        if time.monotonic() > deadline:
            pytest.fail(f"{what} is not there after {START_TIMEOUT:g} s")
        time.sleep(0.01)


def complaints(log: Path, *expected: str) -> list[str]:
    """The warnings and errors in a daemon's log, but lines with one of these words.

    Nor are those that are about the time that a daemon gets on a busy machine (OVS, lib/timeval.c).
    """
    lines = log.read_text().splitlines()
    words = (*expected, "|timeval")
    return [line for line in lines if ("|WARN|" in line or "|ERR|" in line) and not any(word in line for word in words)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker begins one of them when the others have ended."""
    rank = {name: number for number, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


def pytest_report_header() -> list[str]:
    """Report the versions that are tested."""
    tools = make_toolbox()
    if tools.root is None and shutil.which("ovsdb-server", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        return ["ovsdb: no programs found"]
    return [f"ovsdb: {tools.version('ovsdb-server')}; {tools.version('ovn-northd')}; root {tools.root or '/'}"]


def make_toolbox() -> Toolbox:
    """The toolbox that the environment asks for."""
    root = os.environ.get("HEDDLE_OVN_ROOT")
    return Toolbox(Path(root).expanduser().resolve() if root else None)


@pytest.fixture(scope="session")
def tools() -> Toolbox:
    """The programs of Open vSwitch and OVN."""
    return make_toolbox()


@pytest.fixture(autouse=True)
def _own_note_of_writes(monkeypatch, tmp_path):
    """Keep what a host notes beside its databases out of this machine's /run."""
    monkeypatch.setattr(northd_recompute, "PENDING_FILE", str(tmp_path / "northd-pending"))
    monkeypatch.setattr(follow_ups, "FILE", str(tmp_path / "follow-ups.json"))


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """A directory with a short path, which `HEDDLE_KEEP` keeps."""
    path = Path(tempfile.mkdtemp(prefix="heddle-"))
    yield path
    if not os.environ.get("HEDDLE_KEEP"):
        shutil.rmtree(path)


@pytest.fixture
def folder():
    """A directory with a short path: the path of a unix socket has at most 107 characters."""
    with short_folder() as path:
        yield path


@pytest.fixture
def serve(tools, folder):
    """A function `(database, schema=None) -> Server`; servers end with the test."""
    servers = []

    def serve_one(database: str, schema: Path | None = None) -> Server:
        server = Server(tools, folder, database, schema or tools.schema(database))
        servers.append(server)
        return server

    yield serve_one
    for server in servers:
        stop(server.process)


@pytest.fixture
def northbound(serve) -> Server:
    """An empty Northbound database."""
    return serve("OVN_Northbound")


@pytest.fixture
def southbound(serve) -> Server:
    """An empty Southbound database."""
    return serve("OVN_Southbound")


@pytest.fixture
def vswitch(serve) -> Server:
    """An empty Open_vSwitch database."""
    return serve("Open_vSwitch")


def start_northd(tools: Toolbox, folder: Path, northbound: Server, southbound: Server) -> subprocess.Popen:
    """Start ovn-northd between the two databases; it has made its first rows. The caller ends it."""
    process = start(
        tools, folder, "northd", "ovn-northd", f"--ovnnb-db={northbound.remote}", f"--ovnsb-db={southbound.remote}"
    )
    wait_for(lambda: northbound.rows("NB_Global") and southbound.rows("SB_Global"), "ovn-northd", process)
    return process


@pytest.fixture
def northd(tools, folder, northbound, southbound):
    """ovn-northd between the two databases; ready when it has made its first rows."""
    process = start_northd(tools, folder, northbound, southbound)
    yield process
    stop(process)
