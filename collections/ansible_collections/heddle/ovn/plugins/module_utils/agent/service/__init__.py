# SPDX-License-Identifier: Apache-2.0
"""The service `heddle-host`: events that undo a host's desired state, and what is applied after them."""
