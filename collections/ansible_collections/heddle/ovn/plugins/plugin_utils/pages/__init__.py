# SPDX-License-Identifier: Apache-2.0
"""Pictures and pages of results, as SVG and HTML, made on the control node with Python's standard library."""
