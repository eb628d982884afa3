# SPDX-License-Identifier: Apache-2.0
"""Long programs of the tests, such as playbooks, that end with the test that started them, and with pytest.

pytest ends at SIGTERM and SIGKILL without running finalizers, and each worker of ansible-playbook is in a session of
its own, which signals to a process group do not reach. So a supervisor is between pytest and the program: the kernel
sends it a signal when its parent has ended, and it adopts all descendants whose parents have ended (prctl(2)).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.processes import descendants

ROOT = Path(__file__).resolve().parent.parent
_START = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests import supervised; sys.exit(supervised.main())"
# linux/prctl.h
_PARENT_DEATH_SIGNAL, _CHILD_SUBREAPER = 1, 36
_ENDING = {signal.SIGHUP, signal.SIGINT, signal.SIGTERM}
# Seconds until it looks again for descendants that were forked while others were killed.
_INTERVAL = 0.05


def supervised(command: Sequence[str | Path]) -> list[str]:
    """Return the command that runs another one under a supervisor, for the thread that calls this to start.

    At SIGHUP, SIGINT and SIGTERM, and when that thread has ended, all descendants are killed, whatever their sessions
    are. What the program leaves running when it ends by itself is left alone, as ssh's shared connections are. The exit
    code is that of the program, or 128 and the number of the signal that ended it.
    """
    return [sys.executable, "-I", "-S", "-c", _START, str(os.getpid()), *map(str, command)]


@contextlib.contextmanager
def running(command: Sequence[str | Path], **options) -> Iterator[subprocess.Popen]:
    """Start a command and wait for it at the end of the block; a block that fails ends it with all its descendants.

    `options` are those of Popen. OSError when the supervisor cannot be started.
    """
    with subprocess.Popen(supervised(command), **options) as process:
        try:
            yield process
        except BaseException:
            process.terminate()
            process.wait()
            raise


def run(command: Sequence[str | Path], *, timeout: float | None = None, **options) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; stdout has both streams. TimeoutExpired after `timeout` seconds, which end it."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **options}
    with running(command, text=True, **options) as process:
        stdout, stderr = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(list(command), process.returncode, stdout, stderr)


def main() -> int:
    """Supervise the command that follows the parent's process id in the arguments; return its exit code."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING | {signal.SIGCHLD})
    prctl = ctypes.CDLL(None).prctl
    prctl(_CHILD_SUBREAPER, 1)
    prctl(_PARENT_DEATH_SIGNAL, int(signal.SIGTERM))
    # No signal comes for a parent that had ended before.
    if os.getppid() != parent:
        return 128 + signal.SIGTERM

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # A supervisor that is killed does nothing any more.
        prctl(_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))

    child = subprocess.Popen(command, preexec_fn=prepare)
    while (number := signal.sigwait(_ENDING | {signal.SIGCHLD})) == signal.SIGCHLD:
        code = _reaped().get(child.pid)
        if code is not None:
            return code if code >= 0 else 128 - code
    _kill_descendants()
    return 128 + number


def _reaped() -> dict[int, int]:
    """Return the exit codes of children that have ended since, own and adopted ones, by process id."""
    found = {}
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found[ended[0]] = os.waitstatus_to_exitcode(ended[1])
    return found


def _kill_descendants() -> None:
    while found := descendants(os.getpid()):
        # Parents come first, so they start no further ones.
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, _INTERVAL)
        _reaped()
