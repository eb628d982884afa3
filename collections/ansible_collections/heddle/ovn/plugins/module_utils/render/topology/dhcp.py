# SPDX-License-Identifier: Apache-2.0
"""DHCP options of virtual machines on primary Layer2 networks (ovn-nb(5), "DHCP_Options").

Values as in ovn-kubernetes: the server is the same everywhere, so a lease stays valid after
a migration.
"""

from __future__ import annotations

from ...common.addressing import family, mac_of_address, plain
from ...types.ovsdb_row import Ref, Row
from ..common.dhcp_server import SERVER, SERVER6
from ..common.hosting_nodes import hosting_nodes
from ..common.name_resolution import name_servers, search_domains
from ..common.node_network import NodeNetwork

DHCP_OPTIONS = "DHCP_Options"
_LEASE_SECONDS = "3500"
_OWNER_TYPE = "VirtualMachine"


def dhcp_rows(view: NodeNetwork, workload: dict, interface: dict) -> list[Row]:
    """Rows with a virtual machine's options, one per family, in the zones that have its port."""
    if not _is_served(view, workload, interface):
        return []
    return [_options(view, workload, interface, address) for address in interface["addresses"]]


def dhcp_columns(view: NodeNetwork, workload: dict, interface: dict) -> dict:
    """Columns of the VM's port that refer to those rows."""
    if not _is_served(view, workload, interface):
        return {}
    return {
        f"dhcpv{family(address)}_options": {Ref(DHCP_OPTIONS, _key(interface, address))}
        for address in interface["addresses"]
    }


def _is_served(view: NodeNetwork, workload: dict, interface: dict) -> bool:
    return workload["kind"] == "vm" and view.node in hosting_nodes(workload) and interface["role"] == "primary"


def _key(interface: dict, address: str) -> str:
    return f"{interface['port']} v{family(address)}"


def _options(view: NodeNetwork, workload: dict, interface: dict, address: str) -> Row:
    subnet = next(subnet for subnet in view.subnets() if family(subnet) == family(address))
    name = f"{workload['namespace']}/{workload['name']}"
    if family(address) == 4:
        gateways = view.gateway_interfaces()
        options = {
            "server_id": SERVER,
            "server_mac": mac_of_address(SERVER),
            "lease_time": _LEASE_SECONDS,
            "hostname": f'"{workload["name"]}"',
            "router": next(plain(gateway) for gateway in gateways if family(gateway) == 4),
            "mtu": str(interface["mtu"]),
        }
    else:
        options = {"server_id": mac_of_address(SERVER6), "fqdn": f'"{workload["name"]}"'}
    options |= _names(view, workload, interface, family(address))
    ids = {
        "k8s.ovn.org/owner-controller": f"{view.name}-network-controller",
        "k8s.ovn.org/owner-type": _OWNER_TYPE,
        "k8s.ovn.org/name": name,
        "k8s.ovn.org/cidr": subnet,
        "k8s.ovn.org/zone": view.node,
    }
    columns = {"cidr": subnet, "options": options, "external_ids": ids}
    return Row(DHCP_OPTIONS, _key(interface, address), columns, view.name)


def _names(view: NodeNetwork, workload: dict, interface: dict, version: int) -> dict:
    """Name servers and search domains, as namespaces have them in resolv.conf(5)."""
    versions, gateways = {*map(family, interface["addresses"])}, [*map(plain, view.gateway_interfaces())]
    found = name_servers(view.plan, view.node, versions, [one for one in gateways if family(one) in versions])
    servers = [server for server in found if family(server) == version]
    server = servers[0] if len(servers) == 1 else f"{{{', '.join(servers)}}}"
    domains = search_domains(view.settings, workload["namespace"])
    key = "domain_search_list" if version == 4 else "domain_search"
    return {
        **({"dns_server": server} if servers else {}),
        **({key: f'"{",".join(domains)}"'} if domains else {}),
    }
