# SPDX-License-Identifier: Apache-2.0
"""An apply that is killed at any point is complete or has no effect."""

from __future__ import annotations

import os
import random
import signal
import time

from ansible_collections.heddle.ovn.plugins.module_utils.controllers.admission.apply_manifests import store
from ansible_collections.heddle.ovn.plugins.module_utils.ovsdb.protocol.client import Client
from ansible_collections.heddle.ovn.plugins.module_utils.store.database import operations, read
from tests.pipeline import decide, layer2, layer3, namespace, workload

KILLS = 100
POOL = (
    "---\napiVersion: coil.cybozu.com/v2\nkind: AddressPool\nmetadata: {name: shared}\n"
    "spec: {blockSizeBits: 1, subnets: [{ipv4: 10.77.0.0/24}]}\n"
    + namespace("pooled", primary=False).rstrip() + "\n  annotations: {coil.cybozu.com/pool: shared}\n"
)  # fmt: skip
TEXTS = [
    POOL
    + "".join(workload("pooled", f"w{one}", "node1") for one in range(5))
    + namespace("a")
    + layer2("a", "net", "10.0.0.0/24")
    + "".join(workload("a", f"w{one}", "node1") for one in range(9)),
    namespace("b")
    + layer3("b", "net", "10.9.0.0/16", 24)
    + workload("b", "w", "node2")
    + namespace("a")
    + POOL
    + "".join(workload("pooled", f"w{one}", "node2") for one in range(3, 7)),
]


class Doomed(Client):
    """A client whose process is killed when it has sent so many bytes."""

    def __init__(self, remote, left):
        super().__init__(remote, timeout=120)
        sender = self._connection._stream
        client = self
        client.left = left

        class Wire:
            """The stream; `send` counts."""

            def send(self, view):
                sent = sender.send(view[: max(client.left, 0)]) if client.left > 0 else 0
                client.left -= sent
                if client.left <= 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return sent

            def __getattr__(self, name):
                return getattr(sender, name)

        self._connection._stream = Wire()


def apply(client, text):
    return store(client, lambda before: decide(text, before), write=True)


def run_killed(action, after=0.0):
    """Run an action in a process of its own, which is killed `after` seconds if that is not 0."""
    process = os.fork()
    if process == 0:
        try:
            action()
        finally:
            os._exit(0)
    if after:
        signal.signal(signal.SIGALRM, lambda *_arguments: os.kill(process, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, after)
    # It was not waited for until here, so the number is still that of this process, even if it has ended.
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.waitpid(process, 0)


def test_killed_at_random_points_the_state_is_before_or_after(database):
    chance = random.Random(5)
    with database.client() as client:
        for text in (*TEXTS, *TEXTS):
            apply(client, text)
        began = time.monotonic()
        run_killed(lambda: apply(Client(database.remote), TEXTS[0]))
        whole = time.monotonic() - began
        apply(client, TEXTS[1])
        counting = Doomed(database.remote, 1 << 40)
        apply(counting, TEXTS[0])
        counting.close()
        total = (1 << 40) - counting.left
        ends = {"before": 0, "after": 0}
        for number in range(KILLS):
            before, text = read(client), TEXTS[number % 2]
            if number % 2:
                run_killed(lambda text=text: apply(Client(database.remote), text), chance.uniform(0.0001, 1.5 * whole))
            else:
                # Killed right behind the last byte it may have happened, one byte earlier it cannot have.
                budget = (total - 1, total, chance.randint(1, total))[min(number // 2, 2)]
                run_killed(lambda text=text, budget=budget: apply(Doomed(database.remote, budget), text))
            after = read(client)
            happened = after.revision - before.revision
            assert operations(after, decide(text, before)[0] if happened else before) == []
            ends[("before", "after")[happened]] += 1
            apply(client, text)
        assert ends["before"] and ends["after"], ends
