# SPDX-License-Identifier: Apache-2.0
"""North-south traffic: gateway routers, NAT, the flows of the provider bridge."""
