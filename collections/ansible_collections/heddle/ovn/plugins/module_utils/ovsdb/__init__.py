# SPDX-License-Identifier: Apache-2.0
"""OVSDB: the client and the engine that compares desired rows with a database and writes the difference."""
