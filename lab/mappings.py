# SPDX-License-Identifier: Apache-2.0
"""The kernel's limit of memory mappings, which a program of a large host of driver `uml` can reach.

User Mode Linux maps pages of a program one by one (mmap(2)), into at most `vm.max_map_count` areas. A program that has
reached the limit stands still for good: it repeats one page fault, also after the limit was raised. An ovn-northd with
500 networks does.
"""

from pathlib import Path

from lab.config import MEMORY_MEGABYTES, memory_megabytes

LIMIT = Path("/proc/sys/vm/max_map_count")
ENOUGH = 1 << 20


def raise_limit(stages):
    """Raise the limit for hosts that have more memory than usual, or print how.

    On hosts of the usual size no program is so large.
    """
    if memory_megabytes() <= MEMORY_MEGABYTES or int(LIMIT.read_text()) >= ENOUGH:
        return
    try:
        LIMIT.write_text(f"{ENOUGH}\n")
    except OSError:
        stages.line("memory", f"run as root: sysctl vm.max_map_count={ENOUGH} (docs/lab.md)", 0)
    else:
        stages.line("memory", f"vm.max_map_count of this machine is {ENOUGH} until it restarts", 0)
