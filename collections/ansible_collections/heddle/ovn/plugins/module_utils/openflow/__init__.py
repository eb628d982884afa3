# SPDX-License-Identifier: Apache-2.0
"""OpenFlow flows of a bridge: parse, compare, replace as one bundle."""
