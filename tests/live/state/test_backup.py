# SPDX-License-Identifier: Apache-2.0
"""A backup of the state restores every id, key and address, and no readiness."""

from __future__ import annotations

import json

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.admission.apply_manifests import store
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.backup import backup_of, keep_backup
from ansible_collections.heddle.ovn.plugins.module_utils.controllers.conditions import READY, condition
from ansible_collections.heddle.ovn.plugins.module_utils.operations.readiness import record
from ansible_collections.heddle.ovn.plugins.module_utils.plan import build_plan
from ansible_collections.heddle.ovn.plugins.module_utils.render.common.host_plan import HostPlans
from ansible_collections.heddle.ovn.plugins.module_utils.store.database import read
from tests.live.conftest import Server, stop
from tests.live.state.conftest import SCHEMA
from tests.live.state.module_run import run
from tests.pipeline import decide, layer2, namespace, workload


def tenants(*names):
    return "".join(
        namespace(name) + layer2(name, "net", "10.0.0.0/24", "fd00:10::/64") + workload(name, "w", "node1")
        for name in names
    )


def said(database):
    """All rows without their uuids, which are each server's own."""
    return {
        table: sorted(json.dumps({key: row[key] for key in row if key != "_uuid"}, sort_keys=True) for row in rows)
        for table, rows in database.dump().items()
    }


def apply(text, server, deployment="test"):
    """Apply manifests; returns whether that changed something."""

    def admitted(before):
        after, problems = decide(text, before)
        after.name = before.name or deployment
        return after, problems

    with server.client() as client:
        before, after = store(client, admitted, write=True)
    return before != after


@pytest.fixture
def empty(tools, folder):
    """A second state database, as after an installation."""
    place = folder / "empty"
    place.mkdir()
    server = Server(tools, place, "Heddle", SCHEMA)
    yield server
    stop(server.process)


@pytest.fixture
def kept(database, tmp_path):
    """A state with a history, so that its ids are not those of a fresh one, and its backup."""
    apply(tenants("a", "b"), database)
    apply(tenants("b", "c"), database)
    path = tmp_path / "backup" / "state.json"
    with database.client(read_only=True) as client:
        keep_backup(backup_of(read(client)), str(path), write=True)
    return path


def restore(path, server, **arguments):
    return run("state_restoration", path=str(path), socket=server.remote, **arguments)


def test_restore_into_empty_database_keeps_ids_and_allocation_order(database, empty, kept):
    announced = restore(kept, empty, check=True)
    assert "allocation network-id b_net" in announced["differences"]
    assert empty.dump() == {}
    restored = restore(kept, empty)
    assert restored["differences"] == announced["differences"]
    assert said(empty) == said(database)
    assert not restore(kept, empty)["changed"]
    assert not apply(tenants("b", "c"), empty)
    for server in (database, empty):
        assert apply(tenants("b", "c", "d"), server)
    assert said(empty) == said(database)


def test_restored_networks_are_not_ready(database, empty, tmp_path):
    apply(tenants("a"), database)
    with database.client() as client:
        described = read(client)
        digests = HostPlans(build_plan(described)).digests
        record(client, {name: {"digest": digest, "drift": []} for name, digest in digests.items()}, {}, write=True)
        document = backup_of(read(client))
    path = tmp_path / "state.json"
    keep_backup(document, str(path), write=True)
    assert restore(path, empty)["changed"]
    for server, status in ((database, "True"), (empty, "Unknown")):
        with server.client(read_only=True) as client:
            network = read(client).objects["UserDefinedNetwork/a/net"]
        assert condition(network, READY)["status"] == status
    assert not restore(path, empty)["changed"]


def test_restored_revision_exceeds_revisions_of_hosts(empty, kept):
    assert restore(kept, empty, least_revision=40)["revision"] == 40
    assert apply(tenants("b"), empty)
    with empty.client() as client:
        assert read(client).revision == 41


def test_nonempty_database_is_refused_without_overwrite(database, kept):
    apply(tenants("d"), database)
    before = said(database)
    assert "is not empty: it holds" in restore(kept, database)["msg"]
    assert said(database) == before
    assert restore(kept, database, overwrite=True)["revision"] == 4
    assert not apply(tenants("b", "c"), database)


def test_the_state_of_another_deployment_is_not_overwritten(empty, kept):
    apply(tenants("d"), empty, deployment="other")
    before = said(empty)
    assert "of deployment 'test'" in restore(kept, empty, overwrite=True)["msg"]
    assert said(empty) == before


def test_the_backup_is_a_file_that_is_written_once(database, tmp_path):
    assert "holds nothing yet" in run("state_backup_info", socket=database.remote)["msg"]
    apply(tenants("a"), database)
    path = tmp_path / "backup" / "state.json"
    document = run("state_backup_info", socket=database.remote)["document"]
    assert run("state_backup", check=True, document=document, path=str(path))["changed"]
    assert not path.exists()
    assert run("state_backup", document=document, path=str(path))["changed"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert not run("state_backup", document=document, path=str(path))["changed"]
