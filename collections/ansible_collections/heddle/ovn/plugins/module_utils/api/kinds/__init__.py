# SPDX-License-Identifier: Apache-2.0
"""The kinds that a user may write. A new kind is a new file here, and its name in the two lists below.

The imports are spelled out because Ansible copies only what is imported by name to a host.
"""

from __future__ import annotations

from . import (
    address_block,
    address_pool,
    admin_network_policy,
    baseline_admin_network_policy,
    block_request,
    cluster_user_defined_network,
    egress,
    egress_firewall,
    egress_ip,
    egress_qos,
    egress_service,
    endpoint_slice,
    load_balancer_pool,
    mesh_network,
    multi_network_policy,
    namespace,
    network_attachment_definition,
    network_policy,
    service,
    user_defined_network,
    workload,
)

KINDS = {
    module.KIND.name: module.KIND
    for module in (
        address_block,
        address_pool,
        admin_network_policy,
        baseline_admin_network_policy,
        block_request,
        cluster_user_defined_network,
        egress_firewall,
        egress_ip,
        egress_qos,
        egress_service,
        egress,
        endpoint_slice,
        load_balancer_pool,
        mesh_network,
        multi_network_policy,
        namespace,
        network_attachment_definition,
        network_policy,
        service,
        user_defined_network,
        workload,
    )
}
