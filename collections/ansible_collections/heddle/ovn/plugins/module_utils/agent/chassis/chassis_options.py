# SPDX-License-Identifier: Apache-2.0
"""What the modules `chassis` and `chassis_info` are called with (documentation fragment `chassis`)."""

from __future__ import annotations

_PROVIDER = {
    "uplink": {"type": "str", "required": True},
    "bridge": {"type": "str", "default": "br-ex"},
    "mode": {"type": "str", "choices": ["shared", "local"], "default": "shared"},
    "next_hops": {"type": "list", "elements": "str", "default": []},
    "addresses": {"type": "list", "elements": "str", "default": []},
    "vlan": {"type": "int"},
    "prober": {"type": "str", "default": ""},
}
CHASSIS_OPTIONS = {
    "name": {"type": "str", "required": True},
    "encap_ips": {"type": "list", "elements": "str", "required": True},
    "datapath": {"type": "str", "choices": ["auto", "system", "netdev", "none"], "default": "auto"},
    "underlay_interface": {"type": "str"},
    "provider": {"type": "dict", "options": _PROVIDER},
    "physical_networks": {"type": "dict", "default": {}},
    "owner": {"type": "str", "default": "heddle:chassis"},
}
CHASSIS_INFO_OPTIONS = {**CHASSIS_OPTIONS, "compared": {"type": "bool", "default": False}}
