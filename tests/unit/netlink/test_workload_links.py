# SPDX-License-Identifier: Apache-2.0
"""Network namespaces and links on this machine's kernel, in a network namespace of the test's own."""

import contextlib
import errno
import os
import resource
import subprocess
from dataclasses import replace

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel, resolver_files
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.protocol import ethtool
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.protocol.raw_socket import DumpInterrupted
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.workload_links import (
    NetlinkError,
    foreign_namespaces,
    planned_endpoints,
    reconcile_endpoints,
)
from ansible_collections.heddle.ovn.plugins.module_utils.types.netns_workload import Endpoint, Link

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

PREFIX = f"t{os.getpid()}"


def link(number=3, **changes):
    values = {
        "name": "eth0",
        "host_name": f"{PREFIX}_h",
        "mac": f"0a:58:0a:f4:00:{number:02x}",
        "mtu": 1400,
        "addresses": (f"10.244.0.{number}/24", f"fd00:10:244::{number}/64"),
        "routes": (("0.0.0.0/0", "10.244.0.1"), ("::/0", "fd00:10:244::1")),
        "network": "default",
    }
    return Link(**{**values, **changes})


@pytest.fixture
def host():
    """The host's own end is a namespace too, so that nothing of the machine is touched."""
    name = f"{PREFIX}-host"
    kernel.create_namespace(name, "")
    try:
        with kernel.in_netns(name):
            yield name
    finally:
        for namespace in kernel.namespaces():
            if namespace.startswith(PREFIX):
                kernel.remove_namespace(namespace)


def apply(*endpoints, write=True):
    return reconcile_endpoints(list(endpoints), owner=PREFIX, userspace=False, write=write)


def endpoint(*links):
    return Endpoint(f"{PREFIX}_a", links or (link(),))


def test_create_repeat_change_remove(host):
    assert apply(endpoint(), write=False).changed
    assert f"{PREFIX}_a" not in kernel.namespaces()
    assert apply(endpoint()).changed
    seen = kernel.read_links(f"{PREFIX}_a")["eth0"]
    assert seen["addresses"] == set(link().addresses)
    assert seen["routes"] == set(link().routes)
    assert (seen["mac"], seen["mtu"], seen["up"]) == (link().mac, 1400, True)
    assert not apply(endpoint()).changed

    moved = link(addresses=("10.244.0.9/24", "fd00:10:244::3/64"), mtu=1300, mac="0a:58:0a:f4:00:09")
    assert apply(endpoint(moved)).changed
    seen = kernel.read_links(f"{PREFIX}_a")["eth0"]
    assert (seen["addresses"], seen["mtu"], seen["mac"]) == (set(moved.addresses), 1300, moved.mac)
    assert seen["routes"] == set(moved.routes)
    assert not apply(endpoint(moved)).changed

    assert apply().changed
    assert f"{PREFIX}_a" not in kernel.namespaces()
    assert f"{PREFIX}_h" not in kernel.read_links(None)
    assert not apply().changed


def test_a_second_link_comes_and_goes_while_the_first_one_stays(host):
    apply(endpoint())
    second = link(4, name="ovn-udn1", host_name=f"{PREFIX}_i", network="red", routes=())
    before = kernel.read_links(f"{PREFIX}_a")["eth0"]["index"]
    assert {change.network for change in apply(endpoint(link(), second)).changes} == {"red"}
    assert apply(endpoint()).changed
    links = kernel.read_links(f"{PREFIX}_a")
    assert links["eth0"]["index"] == before
    assert set(links) == {"lo", "eth0"}


def selected(number, name, default=False):
    """The interface of a secondary network that is called `name` in the workload."""
    routes = (("0.0.0.0/0", f"10.7.{number}.1"), ("::/0", "fe80::1")) if default else ()
    return link(
        number, name=name, host_name=f"{PREFIX}_{number}", network=f"red_{number}", routes=routes,
        addresses=(f"10.7.{number}.9/24", f"fd00:7:{number}::9/64"),
    )  # fmt: skip


def test_links_that_change_names_are_made_anew_and_the_others_stay(host):
    apply(endpoint(link(), selected(4, "net1"), selected(5, "net2"), selected(6, "extra")))
    before = kernel.read_links(f"{PREFIX}_a")
    for links in (
        (selected(5, "net1"), selected(4, "net2")),
        (selected(4, "net1"),),
        (selected(5, "net1"), selected(4, "net2")),
    ):
        wanted = (link(), *links, selected(6, "extra"))
        outcome = apply(endpoint(*wanted))
        assert (outcome.changed, outcome.refused) == (True, ())
        seen = kernel.read_links(f"{PREFIX}_a")
        assert set(seen) == {"lo", *(one.name for one in wanted)}
        for one in wanted:
            assert (seen[one.name]["mac"], seen[one.name]["addresses"]) == (one.mac, set(one.addresses))
            assert seen[one.name]["peer"] == kernel.read_links(None)[one.host_name]["index"]
        assert not apply(endpoint(*wanted)).changed
        assert [seen[name]["index"] for name in ("eth0", "extra")] == [
            before[name]["index"] for name in ("eth0", "extra")
        ]


def test_the_default_route_goes_to_another_link_and_comes_back(host):
    plain, chosen = endpoint(link(), selected(4, "net1")), endpoint(link(routes=()), selected(4, "net1", default=True))
    apply(plain)
    for wanted in (chosen, plain, chosen):
        outcome = apply(wanted)
        assert (outcome.changed, outcome.refused) == (True, ())
        seen = kernel.read_links(f"{PREFIX}_a")
        assert {one.name: seen[one.name]["routes"] for one in wanted.links} == {
            one.name: set(one.routes) for one in wanted.links
        }
        assert not apply(wanted).changed


def test_a_link_whose_host_end_was_deleted_is_made_again(host):
    apply(endpoint())
    kernel.remove_link(f"{PREFIX}_h")
    assert apply(endpoint()).changed
    assert kernel.read_links(f"{PREFIX}_a")["eth0"]["addresses"] == set(link().addresses)
    assert not apply(endpoint()).changed


def test_foreign_namespaces_are_not_changed_or_adopted(host):
    kernel.create_namespace(f"{PREFIX}_foreign", "")
    kernel.create_link(f"{PREFIX}_foreign", link(host_name=f"{PREFIX}_f"), "another-owner")
    apply()
    assert "eth0" in kernel.read_links(f"{PREFIX}_foreign")
    with pytest.raises(NetlinkError, match="exists and is not Heddle's"):
        apply(Endpoint(f"{PREFIX}_foreign", (link(),)))


def test_a_creation_that_was_cut_off_is_completed(host):
    kernel.create_namespace(f"{PREFIX}_a", "")
    assert apply(endpoint()).changed
    assert not apply(endpoint()).changed


def test_leftover_file_of_a_cut_off_creation_is_replaced(host):
    names = [f"{PREFIX}_a", f"{PREFIX}_else"]
    for name in names:
        with open(f"/var/run/netns/{name}", "w", encoding="utf-8"):
            pass
    try:
        assert apply(endpoint()).changed
        assert not apply(endpoint()).changed
    finally:
        os.unlink(f"/var/run/netns/{names[1]}")


def identity(name=f"{PREFIX}_a"):
    return os.stat(f"/var/run/netns/{name}").st_ino


@pytest.mark.parametrize(
    "failure",
    [OSError(errno.EMFILE, "Too many open files"), DumpInterrupted("the list changed"), OSError(errno.EINVAL, "x")],
)
def test_a_workload_that_cannot_be_read_keeps_its_namespace_and_the_others_are_written(host, failure, monkeypatch):
    other = Endpoint(f"{PREFIX}_b", (link(4, host_name=f"{PREFIX}_i", network="blue"),))
    apply(endpoint())
    before, read = identity(), kernel.read_links

    def failing(namespace):
        if namespace == f"{PREFIX}_a":
            raise failure
        return read(namespace)

    monkeypatch.setattr(kernel, "read_links", failing)
    outcome = apply(endpoint(), other)
    ((network, reason),) = outcome.refused
    assert network == "default"
    assert f"{PREFIX}_a stays as it is, because it cannot be read: {failure}" in reason
    assert {one.name for one in outcome.changes} == {other.namespace, f"{other.namespace}/eth0"}
    with pytest.raises(NetlinkError, match="cannot be read"):
        apply(endpoint(), other, write=False)
    # Where it is not wanted, it may be a foreign one.
    (note,) = apply(other, write=False).notes
    assert note == reason
    monkeypatch.undo()
    assert identity() == before
    assert not apply(endpoint(), other).changed


def test_file_descriptors_that_are_used_up_leave_the_namespace_of_a_workload(host):
    apply(endpoint())
    before, limits, held = identity(), resource.getrlimit(resource.RLIMIT_NOFILE), []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        for left in (3, 2, 1):
            with contextlib.suppress(OSError):
                while True:
                    held.append(os.open("/dev/null", os.O_RDONLY))
            for descriptor in held[-left:]:
                os.close(descriptor)
            del held[-left:]
            with contextlib.suppress(OSError, NetlinkError):
                apply(endpoint())
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert identity() == before
    assert not apply(endpoint()).changed


def test_a_link_that_goes_while_a_workload_is_read_is_not_there(host, monkeypatch):
    apply(endpoint())
    with kernel.in_netns(f"{PREFIX}_a"):
        subprocess.run(["ip", "link", "add", "va", "type", "veth", "peer", "name", "vb"], check=True)
    read = ethtool.transmit_checksum

    def slow(name):
        if name != "eth0":
            subprocess.run(["ip", "link", "del", "va"], check=False)
        return read(name)

    monkeypatch.setattr(ethtool, "transmit_checksum", slow)
    assert not kernel.read_links(f"{PREFIX}_a").keys() & {"va", "vb"}
    assert not apply(endpoint()).changed


def test_links_in_a_workload_may_have_any_name(host):
    apply(endpoint())
    for command in (
        [b"link", b"add", b"x\xff", b"type", b"veth", b"peer", b"name", b"vb"],
        [b"link", b"set", b"vb", b"alias", b"\xff"],
    ):
        with kernel.in_netns(f"{PREFIX}_a"):
            subprocess.run([b"ip", *command], check=True)
    assert kernel.read_links(f"{PREFIX}_a").keys() == {"lo", "eth0", "vb", "x\\xff"}
    assert not apply(endpoint()).changed
    assert apply().changed


def test_foreign_namespace_may_have_any_name(host):
    apply(endpoint())
    for name in (os.fsdecode(b"%s_caf\xe9" % PREFIX.encode()), f"{PREFIX}_größe"):
        kernel_file = f"/var/run/netns/{name}"
        with open(kernel_file, "w", encoding="utf-8"):
            pass
        subprocess.run(["mount", "--bind", "/proc/self/ns/net", kernel_file], check=True)
        try:
            assert not apply(endpoint()).changed
            foreign = foreign_namespaces(PREFIX)
            assert os.fsencode(name).decode(errors="backslashreplace") in foreign
            "".join(foreign).encode()
        finally:
            subprocess.run(["umount", kernel_file], check=True)
            os.unlink(kernel_file)


def test_foreign_link_with_a_desired_name_is_not_changed(host):
    kernel.create_namespace(f"{PREFIX}_foreign", "")
    kernel.create_link(f"{PREFIX}_foreign", link(), "another-owner")
    ((_network, reason),) = apply(endpoint()).refused
    assert "is not Heddle's" in reason
    assert kernel.read_links(None)[f"{PREFIX}_h"]["alias"] == "another-owner"


def test_the_userspace_datapath_gets_complete_checksums(host):
    for _run in range(2):
        outcome = reconcile_endpoints([endpoint()], owner=PREFIX, userspace=True, write=True)
    assert not outcome.changed
    with kernel.in_netns(f"{PREFIX}_a"):
        assert not ethtool.transmit_checksum("eth0")


def test_workload_sends_no_router_solicitation_where_no_router_answers(host):
    quiet = endpoint(link(solicits_routers=False), selected(4, "net1"))
    apply(quiet)
    seen = kernel.read_links(f"{PREFIX}_a")
    assert {name: seen[name]["solicits"] for name in ("eth0", "net1")} == {"eth0": False, "net1": True}
    assert not any(seen[name]["detects"] for name in ("eth0", "net1"))
    with kernel.in_netns(f"{PREFIX}_a"), open("/proc/sys/net/ipv6/conf/eth0/router_solicitations") as setting:
        assert setting.read() == "0\n"
    assert not apply(quiet).changed


def test_host_end_of_a_link_has_no_ipv6_address(host):
    apply(endpoint())
    with open("/proc/net/if_inet6", encoding="ascii") as addresses:
        assert f"{PREFIX}_h" not in addresses.read()


def test_running_workload_stops_sending_router_solicitations(host):
    apply(endpoint())
    wanted = endpoint(link(solicits_routers=False))
    (change,) = apply(wanted, write=False).changes
    assert (change.before["router solicitations"], change.after["router solicitations"]) == (True, False)
    assert apply(wanted).changed
    assert not kernel.read_links(f"{PREFIX}_a")["eth0"]["solicits"]
    assert not apply(wanted).changed


def test_link_of_another_owner_is_not_changed_by_a_creation_that_fails(host):
    kernel.create_namespace(f"{PREFIX}_foreign", "")
    kernel.create_link(f"{PREFIX}_foreign", link(), "another-owner")
    kernel.create_namespace(f"{PREFIX}_a", "")
    with pytest.raises(FileExistsError):
        kernel.create_link(f"{PREFIX}_a", link(), "mine")
    assert kernel.read_links(None)[f"{PREFIX}_h"]["alias"] == "another-owner"


def test_no_residue_on_this_machine():
    with contextlib.suppress(FileNotFoundError):
        assert not [name for name in kernel.namespaces() if name.startswith(PREFIX)]


def test_entering_a_missing_namespace_does_not_create_it(host):
    with pytest.raises(FileNotFoundError), kernel.in_netns(f"{PREFIX}_missing"):
        pass
    assert f"{PREFIX}_missing" not in kernel.namespaces()


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(resolver_files, "DIRECTORY", f"{tmp_path}/netns")
    monkeypatch.setattr(resolver_files, "OF_HOST", "/etc/passwd")
    return tmp_path / "netns"


def test_resolver_file_is_created_changed_and_removed(host, files):
    first, second = (
        replace(endpoint(), resolver=f"search {name}.svc.example\nnameserver 10.244.0.1\n") for name in "ab"
    )
    path = files / f"{PREFIX}_a" / "resolv.conf"
    assert any(one.kind == "resolv.conf" for one in planned_endpoints([first], owner=PREFIX).changes)
    assert apply(first, write=False).changed
    assert not files.exists()
    assert apply(first).changed
    assert not apply(first).changed
    assert path.read_text() == f"# heddle:{PREFIX}\n{first.resolver}"
    (change,) = apply(second, write=False).changes
    assert (change.action, change.kind) == ("update", "resolv.conf")
    assert apply(second).changed
    assert path.read_text().endswith(second.resolver)
    # Damaged by hand: it is repaired. With another workload's file beside it, only this one goes.
    path.write_text(f"# heddle:{PREFIX}\nnameserver 192.0.2.1\n")
    assert apply(second).changed
    other = files / "theirs" / "resolv.conf"
    other.parent.mkdir()
    other.write_text("nameserver 192.0.2.1\n")
    assert apply(endpoint()).changed
    assert not path.parent.exists()
    assert other.exists()


def test_foreign_resolver_file_stays_and_is_reported(host, files):
    wanted = replace(endpoint(), resolver="search svc.example\nnameserver 10.244.0.1\n")
    path = files / wanted.namespace / "resolv.conf"
    path.parent.mkdir(parents=True)
    path.symlink_to("/nonexistent")
    for _run in range(2):
        outcome = apply(wanted)
        assert not any(one.kind == "resolv.conf" for one in outcome.changes)
        (note,) = outcome.notes
        assert str(path) in note
    apply()
    assert path.is_symlink()


def test_host_without_a_resolver_file_of_its_own_is_reported(host, files, tmp_path, monkeypatch):
    monkeypatch.setattr(resolver_files, "OF_HOST", f"{tmp_path}/resolv.conf")
    wanted = replace(endpoint(), resolver="search svc.example\nnameserver 10.244.0.1\n")
    assert not apply(endpoint()).notes
    (note,) = apply(wanted).notes
    assert f"no {tmp_path}/resolv.conf" in note
    (tmp_path / "resolv.conf").touch()
    assert not apply(wanted).notes
