# SPDX-License-Identifier: Apache-2.0
"""The daemon of a mesh: controller of the bridge, control channel to other hosts. What it decides is in mesh/."""
