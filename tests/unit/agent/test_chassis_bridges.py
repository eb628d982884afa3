# SPDX-License-Identifier: Apache-2.0
"""Bridges for the inventory's options, and options that are refused before any write."""

from __future__ import annotations

import pytest

from ansible_collections.heddle.ovn.plugins.module_utils.agent.chassis.chassis import provider_addresses, wanted_bridges
from ansible_collections.heddle.ovn.plugins.module_utils.agent.module_runner import UserError

PROVIDER = {"uplink": "eth2", "bridge": "br-ex"}


def arguments(provider=PROVIDER, underlay="eth1", datapath="netdev", **physical):
    return {
        "datapath": datapath, "underlay_interface": underlay, "provider": provider, "physical_networks": physical,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "bridges"),
    [
        (
            arguments(),
            {"br-underlay": ("eth1", []), "br-ex": ("eth2", ["physnet"])},
        ),
        (arguments(datapath="system"), {"br-ex": ("eth2", ["physnet"])}),
        (arguments(None, datapath="system"), {}),
        (
            arguments(None, datapath="system", b={"bridge": "br-b", "uplink": "eth3"}, a={"bridge": "br-b"}),
            {"br-b": ("eth3", ["a", "b"])},
        ),
        (
            arguments(datapath="system", one={"bridge": "br-ex"}, two={"bridge": "br-two"}),
            {"br-ex": ("eth2", ["physnet", "one"]), "br-two": (None, ["two"])},
        ),
    ],
)
def test_bridges(given, bridges):
    found = {bridge["name"]: (bridge["uplink"], bridge["physical_networks"]) for bridge in wanted_bridges(given)}
    assert found == bridges


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (arguments(underlay=None), "give underlay_interface"),
        (arguments(underlay="eth2"), "eth2 cannot be a port of both br-underlay and br-ex"),
        (arguments(one={"bridge": "br-one", "uplink": "eth2"}), "eth2 cannot be a port of both br-ex and br-one"),
        (arguments(one={"bridge": "br-ex", "uplink": "eth3"}), "br-ex has the uplink eth2 already"),
        (arguments({**PROVIDER, "bridge": "br-provider-network"}), "1 to 15 letters"),
        (arguments({**PROVIDER, "bridge": "br/ex"}), "1 to 15 letters"),
        (arguments({**PROVIDER, "bridge": ""}), "1 to 15 letters"),
        (arguments({**PROVIDER, "bridge": "br-int"}), "not br-int"),
        (arguments({**PROVIDER, "bridge": "eth2"}), "eth2 has the name of an interface"),
        (arguments(physnet={"bridge": "br-ex"}), "the name is reserved for the provider network"),
        (arguments(**{"a:b": {"bridge": "br-ex"}}), "no colon"),
        (arguments(one={"uplink": "eth3"}), "must have bridge"),
    ],
)
def test_invalid_options_are_refused(given, message):
    with pytest.raises(UserError, match=message):
        wanted_bridges(given)


def test_bridge_name_of_15_characters_is_accepted():
    (bridge,) = wanted_bridges(arguments({**PROVIDER, "bridge": "br-fifteen-long"}, datapath="system"))
    assert len(bridge["name"]) == 15


def test_order_of_host_addresses_and_inventory_preference():
    held = ["fd00::2/64", "10.0.0.9/24", "10.0.0.2/24"]
    reported = {**PROVIDER, "addresses": ["10.0.0.9"]}
    assert provider_addresses(held, reported) == ["10.0.0.9/24", "10.0.0.2/24", "fd00::2/64"]


def test_a_provider_network_without_an_address_of_the_host_is_refused():
    """A plan with such a host could not be rendered, on no host at all."""
    with pytest.raises(UserError, match="neither br-ex nor eth2 has an address"):
        provider_addresses([], {**PROVIDER, "addresses": []})
