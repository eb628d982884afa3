# SPDX-License-Identifier: Apache-2.0
"""What all modules of the collection promise."""

from __future__ import annotations


class ModuleDocFragment:
    """Attributes of modules."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and say what would change without changing it, also on an empty host.
    support: full
  diff_mode:
    description: Shows per object which columns change.
    support: full
  idempotent:
    description: A second run with the same arguments changes nothing.
    support: full
"""

    INFO = r"""
options: {}
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  idempotent:
    description: Changes nothing.
    support: full
"""
