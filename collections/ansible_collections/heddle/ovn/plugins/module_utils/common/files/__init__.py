# SPDX-License-Identifier: Apache-2.0
"""Files of a host: replaced in one step, brought to given texts together, and written by daemons for others."""
