# SPDX-License-Identifier: Apache-2.0
"""Options of the modules that make a host a chassis, or report whether it is one."""

from __future__ import annotations


class ModuleDocFragment:
    """How the inventory describes a host."""

    DOCUMENTATION = r"""
options:
  name:
    description: Name of the host.
    type: str
    required: true
  encap_ips:
    description: Addresses of the host's tunnel endpoints, without prefix length.
    type: list
    elements: str
    required: true
  datapath:
    description: Datapath of the bridges; V(auto) chooses V(system) where the kernel has Open vSwitch, else V(netdev).
      V(none) is a host without Open vSwitch and OVN.
    type: str
    choices: [auto, system, netdev, none]
    default: auto
  underlay_interface:
    description: NIC of the underlay; needed for the userspace datapath only.
    type: str
  provider:
    description: The provider network of the host; without it the networks have no external connectivity there.
    type: dict
    suboptions:
      uplink:
        description: NIC (uplink) of the provider network.
        type: str
        required: true
      bridge:
        description: Bridge that the uplink is attached to.
        type: str
        default: br-ex
      mode:
        description:
          - V(shared) sends packets of workloads straight to the provider network, V(local) through the host's kernel.
          - V(local) needs a kernel with VRFs.
        type: str
        choices: [shared, local]
        default: shared
      next_hops:
        description: Gateways of the provider network; by default those of the host's default routes.
        type: list
        elements: str
        default: []
      addresses:
        description: The preferred addresses of the host, if it has several of a family.
        type: list
        elements: str
        default: []
      vlan:
        description: VLAN of the provider network for the host itself and the gateway routers.
        type: int
      prober:
        description:
          - Cgroup (version 2) whose processes may reach workloads over the default network although they have a primary
            network of their own, as health probers must. A path below the root, like V(system.slice/prober.service).
          - While the cgroup does not exist, and on hosts with cgroup version 1, no process may. C(heddle-host) adds the
            rule when the cgroup is created or recreated.
        type: str
        default: ""
  physical_networks:
    description:
      - Further physical networks for Localnet networks. The key is the C(physicalNetworkName) of the
        manifest, the value has C(bridge) and, unless another physical network or O(provider) gives it, C(uplink).
    type: dict
    default: {}
  owner:
    description: Owner's mark of the rows.
    type: str
    default: heddle:chassis
"""
