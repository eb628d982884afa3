# SPDX-License-Identifier: Apache-2.0
"""Programs and daemons of a host: how they are started, identified and ended, and their byte code."""
