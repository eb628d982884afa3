# SPDX-License-Identifier: Apache-2.0
"""The client and a cluster of three real servers (RAFT): it finds the leader, and goes on when that one is killed."""

from __future__ import annotations

import signal

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import Client, Interrupted, Unreachable
from tests.live.conftest import start, stop, wait_for

DATABASE = "OVN_Northbound"
MEMBERS = ("s1", "s2", "s3")
# Four times the default, as on a busy machine a leader that did not run for a second lost its place within a test.
ELECTION_TIMER = "--election-timer=4000"
SELECT = {"op": "select", "table": "Logical_Switch", "where": [], "columns": ["name"]}


def insert(name: str) -> dict:
    return {"op": "insert", "table": "Logical_Switch", "row": {"name": name}}


class Cluster:
    """Three members of one database, each with a socket for clients and one for the others."""

    def __init__(self, tools, folder) -> None:
        self._tools, self._folder = tools, folder
        self.processes: dict = {}
        self.remotes = {name: f"unix:{folder / name}.sock" for name in MEMBERS}
        raft = {name: f"unix:{folder / name}.raft" for name in MEMBERS}
        first, *others = MEMBERS
        tools.run(
            "ovsdb-tool", ELECTION_TIMER, "create-cluster", self._file(first), str(tools.schema(DATABASE)), raft[first]
        )
        for name in others:
            tools.run("ovsdb-tool", "join-cluster", self._file(name), DATABASE, raft[name], raft[first])
        for name in MEMBERS:
            self.start(name)
        for name in MEMBERS:
            wait_for(lambda name=name: self.status(name)["connected"], f"member {name}", self.processes[name])

    def _file(self, name: str) -> str:
        return str(self._folder / f"{name}.db")

    def start(self, name: str) -> None:
        self.processes[name] = start(
            self._tools, self._folder, name, "ovsdb-server", f"--remote=p{self.remotes[name]}", "--no-chdir",
            self._file(name),
        )  # fmt: skip

    def status(self, name: str) -> dict:
        """What a member says of itself; not connected while it does not answer."""
        columns = ["name", "connected", "leader"]
        select = {"op": "select", "table": "Database", "where": [["name", "==", DATABASE]], "columns": columns}
        try:
            with Client(self.remotes[name]) as client:
                return next(iter(client.transact("_Server", [select])[0]["rows"]), {"connected": False})
        except Unreachable:
            return {"connected": False}

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def leader(self) -> str:
        """The member that leads."""
        found = []

        def known() -> bool:
            found[:] = [
                name for name in MEMBERS if self.processes[name].poll() is None and self.status(name).get("leader")
            ]
            return len(found) == 1

        wait_for(known, "a leader")
        return found[0]

    def remote(self, *, last: str) -> str:
        """All members as one remote, with one of them at its end."""
        return ",".join([*(remote for name, remote in self.remotes.items() if name != last), self.remotes[last]])


@pytest.fixture
def cluster(tools, folder):
    made = Cluster(tools, folder)
    yield made
    for process in made.processes.values():
        stop(process)


def names(client: Client) -> list[str]:
    return sorted(row["name"] for row in client.transact(DATABASE, [SELECT])[0]["rows"])


def test_who_writes_asks_the_leader_and_who_reads_any_member(cluster):
    leader = cluster.leader()
    remote = cluster.remote(last=leader)
    with Client(remote) as writer, Client(remote, read_only=True) as reader:
        writer.transact(DATABASE, [insert("one")])
        assert writer.server == cluster.remotes[leader]
        reader.transact(DATABASE, [SELECT])
        assert reader.server != cluster.remotes[leader]


def test_a_client_goes_on_when_the_leader_is_killed(cluster):
    leader = cluster.leader()
    with Client(cluster.remote(last=leader)) as client:
        client.transact(DATABASE, [insert("before")])
        assert client.server == cluster.remotes[leader]
        cluster.kill(leader)
        client.transact(DATABASE, [insert("after")])
        assert names(client) == ["after", "before"]
        assert client.server == cluster.remotes[cluster.leader()] != cluster.remotes[leader]


def test_a_client_follows_a_leader_that_steps_down(cluster, tools, folder):
    leader = cluster.leader()
    with Client(cluster.remote(last=leader)) as client:
        client.transact(DATABASE, [insert("before")])
        control = str(folder / f"{leader}.ctl")
        tools.run("ovs-appctl", "-t", control, "cluster/failure-test", "transfer-leadership")
        wait_for(lambda: not cluster.status(leader)["leader"], "another leader")
        client.transact(DATABASE, [insert("after")])
        assert client.server == cluster.remotes[cluster.leader()]
        assert names(client) == ["after", "before"]


def test_a_write_that_was_under_way_is_reported_as_interrupted_and_a_read_is_repeated(cluster):
    leader = cluster.leader()
    with Client(cluster.remote(last=leader)) as client:
        assert names(client) == []
        reading = client.start(DATABASE, [SELECT])
        cluster.kill(leader)
        assert client.finish(reading)[0]["rows"] == []
        second = cluster.leader()
        cluster.start(leader)
        wait_for(lambda: cluster.status(leader)["connected"], "the member that came back", cluster.processes[leader])
        names(client)
        # Without its process the request stays in the socket, so no reply can come before the end.
        cluster.processes[second].send_signal(signal.SIGSTOP)
        writing = client.start(DATABASE, [insert("perhaps")])
        cluster.kill(second)
        with pytest.raises(Interrupted, match="committed as a whole or not at all; run this again"):
            client.finish(writing)
        client.transact(DATABASE, [insert("certainly")])
        assert "certainly" in names(client)


def test_without_a_majority_the_error_names_every_member_and_its_reason(cluster):
    leader = cluster.leader()
    with Client(cluster.remote(last=leader), timeout=1.0) as client:
        client.transact(DATABASE, [insert("before")])
        survivor = next(name for name in MEMBERS if name != leader)
        for name in MEMBERS:
            if name != survivor:
                cluster.kill(name)
        with pytest.raises(Unreachable, match=f"no server for {DATABASE} after 1 s") as caught:
            client.transact(DATABASE, [insert("after")])
    text = str(caught.value)
    assert all(remote in text for remote in cluster.remotes.values())
    assert "cannot connect" in text
    assert "does not lead its cluster" in text or "is not connected to its cluster" in text
