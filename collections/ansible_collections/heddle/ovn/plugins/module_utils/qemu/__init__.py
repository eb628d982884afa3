# SPDX-License-Identifier: Apache-2.0
"""Virtual machines: QEMU instances, their monitor protocol, the guest image."""
