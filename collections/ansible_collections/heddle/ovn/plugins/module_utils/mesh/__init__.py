# SPDX-License-Identifier: Apache-2.0
"""The protocol of a mesh of hosts: peers, their short ids, routes, messages, forwarding decisions. No input or output.

After Weave's fast datapath (weave, docs/fastdp.md) and its mesh library. What sends and receives is a caller's: it
passes bytes, frames and the time in, and gets bytes, actions and invalidations.
"""
