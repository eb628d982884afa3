# SPDX-License-Identifier: Apache-2.0
"""The link-local address of a workload follows its MAC address, on this machine's kernel."""

import json
import os

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.netlink import kernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.handle import HostKernel
from ansible_collections.heddle.ovn.plugins.module_utils.netlink.workload_links import reconcile_endpoints
from ansible_collections.heddle.ovn.plugins.module_utils.types.netns_workload import Endpoint, Link
from tests.live.conftest import wait_for
from tests.live.netlink.conftest import ip

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

PREFIX = f"l{os.getpid()}"
WORKLOAD, FRESH = f"{PREFIX}_a", f"{PREFIX}_b"


@pytest.fixture
def host():
    """The host's own end is a namespace too, so that nothing of the machine is touched."""
    kernel.create_namespace(f"{PREFIX}-host", "")
    try:
        with kernel.in_netns(f"{PREFIX}-host"):
            yield
    finally:
        for namespace in kernel.namespaces():
            if namespace.startswith(PREFIX):
                kernel.remove_namespace(namespace)


def endpoint(number, namespace=WORKLOAD, **changes):
    """A workload whose MAC address, but none of its other addresses, has this number."""
    values = {
        "name": "eth0",
        "host_name": f"{namespace}_h",
        "mac": f"0a:58:0a:4d:00:{number:02x}",
        "mtu": 1400,
        "addresses": ("10.77.0.4/24", "fd00:10:77::4/64"),
        "routes": (("0.0.0.0/0", "10.77.0.1"), ("::/0", "fe80::1")),
        "network": "red",
    }
    return Endpoint(namespace, (Link(**{**values, **changes}),))


def apply(*endpoints, write=True):
    return reconcile_endpoints(list(endpoints), owner=PREFIX, userspace=False, write=write)


def inside(*command, namespace=WORKLOAD):
    return ip("-n", namespace, *command)


def addresses(namespace=WORKLOAD):
    """The workload's IPv6 addresses with what the kernel says of them, but whether it looked for duplicates."""
    (link,) = json.loads(inside("-json", "-6", "address", "show", "dev", "eth0", namespace=namespace))
    return {one["local"]: {key: one[key] for key in one if key != "nodad"} for one in link["addr_info"]}


def link_local(namespace=WORKLOAD):
    return {text for text in addresses(namespace) if text.startswith("fe80:")}


def routes(namespace=WORKLOAD):
    """The workload's IPv6 routes, but those to its own addresses."""
    everything = inside("-6", "route", "show", "table", "all", namespace=namespace).splitlines()
    return sorted(line.strip() for line in everything if not line.startswith(("local ", "anycast ")))


def created(*endpoints):
    apply(*endpoints)
    for one in endpoints:
        wait_for(lambda one=one: link_local(one.namespace), "the link-local address")


def of(number):
    return f"fe80::858:aff:fe4d:{number:x}"


def origin():
    return kernel.read_links(WORKLOAD)["eth0"]["link-local"]


def test_it_is_that_of_a_new_workload_after_the_mac_address_changed(host):
    created(endpoint(4))
    inside("-6", "route", "add", "fd99::/64", "via", "fe80::9", "dev", "eth0")
    before, known, made = addresses(), routes(), origin()
    assert set(before) == {of(4), "fd00:10:77::4"}

    checked = apply(endpoint(0x3C), write=False)
    assert addresses() == before
    done = apply(endpoint(0x3C))
    assert done.changes == checked.changes
    assert [(change.before, change.after) for change in done.changes] == [
        ({"mac": "0a:58:0a:4d:00:04"}, {"mac": "0a:58:0a:4d:00:3c"}),
        ({"link-local": [f"{of(4)}/64"]}, {"link-local": [f"{of(0x3C)}/64"]}),
    ]
    assert not apply(endpoint(0x3C)).changed

    fresh = endpoint(0x3C, FRESH)
    created(endpoint(0x3C), fresh)
    assert addresses()[of(0x3C)] == addresses(FRESH)[of(0x3C)]
    assert origin() == {f"{of(0x3C)}/64": made[f"{of(4)}/64"]} == kernel.read_links(FRESH)["eth0"]["link-local"]
    assert addresses()["fd00:10:77::4"] == before["fd00:10:77::4"]
    assert routes() == known
    assert [line for line in known if "fd99::" not in line] == routes(FRESH)


def test_all_addresses_change_with_it(host):
    created(endpoint(4))
    apply(endpoint(0x3C, addresses=("10.77.0.60/24", "fd00:10:77::3c/64")))
    assert set(addresses()) == {of(0x3C), "fd00:10:77::3c"}
    assert "default via fe80::1 dev eth0 proto 85 metric 1024 pref medium" in routes()


def test_link_local_addresses_of_the_workload_itself_stay(host):
    created(endpoint(4))
    for text in ("fe80::77", of(0x99), "fe80::2c0:ff:fe12:3456"):
        inside("address", "add", f"{text}/64", "dev", "eth0", "nodad")
    assert not apply(endpoint(4)).changed
    apply(endpoint(0x3C))
    assert link_local() == {of(0x3C), "fe80::77", of(0x99), "fe80::2c0:ff:fe12:3456"}
    assert not apply(endpoint(0x3C)).changed


def test_one_that_an_earlier_version_left_is_replaced(host):
    created(endpoint(4))
    if set(origin().values()) == {0}:
        pytest.skip("this kernel does not say which addresses it derived itself (Linux 5.18)")
    known = routes()
    inside("link", "set", "eth0", "address", "0a:58:0a:4d:00:3c")
    assert link_local() == {of(4)}
    (change,) = apply(endpoint(0x3C), write=False).changes
    assert (change.kind, change.before) == ("addresses", {"link-local": [f"{of(4)}/64"]})
    apply(endpoint(0x3C))
    assert link_local() == {of(0x3C)}
    assert routes() == known
    assert not apply(endpoint(0x3C)).changed


@pytest.mark.parametrize(("setting", "value"), [("addr_gen_mode", "1"), ("disable_ipv6", "1")])
def test_none_is_added_where_the_kernel_derives_none(host, setting, value):
    created(endpoint(4, addresses=("10.77.0.4/24",), routes=()))
    with kernel.in_netns(WORKLOAD), HostKernel() as kernel_side:
        kernel_side.write_sysctl(f"net/ipv6/conf/eth0/{setting}", value)
    before = kernel.read_links(WORKLOAD)["eth0"]["link-local"]
    apply(endpoint(0x3C, addresses=("10.77.0.4/24",), routes=()))
    assert kernel.read_links(WORKLOAD)["eth0"]["link-local"] == before
    assert not apply(endpoint(0x3C, addresses=("10.77.0.4/24",), routes=())).changed


def test_a_link_that_was_down_derives_its_own(host):
    created(endpoint(4))
    inside("link", "set", "eth0", "down")
    apply(endpoint(0x3C))
    wait_for(lambda: link_local() == {of(0x3C)}, "the new link-local address")
    assert not apply(endpoint(0x3C)).changed
