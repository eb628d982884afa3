# SPDX-License-Identifier: Apache-2.0
"""What every layer may use: names, addresses, changes and errors, files, subprocesses."""
