# SPDX-License-Identifier: Apache-2.0
"""What a node does: applies its part of the plan, for the modules and as the service `heddle-host`."""
