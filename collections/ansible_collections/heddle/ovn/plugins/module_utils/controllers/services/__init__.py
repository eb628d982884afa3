# SPDX-License-Identifier: Apache-2.0
"""Services: cluster IPs, node ports, load balancers, endpoints and status."""
