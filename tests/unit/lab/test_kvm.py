# SPDX-License-Identifier: Apache-2.0
"""What is stored about KVM: only what was seen."""

import json
import sys

import pytest

from lab import commands, kvm, packages
from lab.config import Lab
from lab.image import Image
from lab.stages import Stages

# Instead of QEMU: a guest that prints this on its console; then QEMU reports an event, and ends or stays.
GUEST = """#!{python}
import sys, time
with open(sys.argv[-1].removeprefix("file:"), "w") as console:
    console.write({printed!r})
sys.stdin.readline()
print('{{"QMP": {{}}}}\\n{{"return": {{}}}}\\n' + {event!r}, end="", flush=True)
while {stays}:
    time.sleep(1)
"""
STOP = '{"event": "STOP"}\n'
# Seconds that no guest here takes.
NEVER = 60


@pytest.fixture
def image(tmp_path, monkeypatch):
    monkeypatch.setattr(kvm, "accessible", lambda: True)
    monkeypatch.setattr(kvm.machine, "version", lambda: "QEMU 10")
    return Image(tmp_path, "made")


@pytest.fixture
def qemu(tmp_path, monkeypatch):
    """Put a program in the place of QEMU."""

    def put(printed, event, stays):
        program = tmp_path / "qemu"
        program.write_text(GUEST.format(python=sys.executable, printed=printed, event=event, stays=stays))
        program.chmod(0o755)
        monkeypatch.setattr(kvm.machine, "QEMU", str(program))

    return put


@pytest.mark.parametrize(
    ("printed", "event", "stays", "limit", "works", "stored"),
    [("kvm-works", "", False, NEVER, True, [True]), ("", "", False, NEVER, False, [False]),
     ("", "", True, 0, False, []),
     # KVM cannot execute an instruction: QEMU stops the guest and waits.
     ("", STOP, True, NEVER, False, [False])],
)  # fmt: skip
def test_only_a_guest_that_takes_too_long_is_tried_again(
    image, qemu, monkeypatch, printed, event, stays, limit, works, stored
):
    qemu(printed, event, stays)
    monkeypatch.setattr(kvm, "LIMIT", limit)
    assert kvm.works(image.cache, image) is works
    known = image.cache / "kvm.json"
    assert (list(json.loads(known.read_text()).values()) if known.exists() else []) == stored
    assert kvm.remembered(image.cache, image)[1] is (works if stored else None)


def test_answers_for_two_images_are_kept(image, qemu):
    other = Image(image.cache, "other")
    for printed, made in (("kvm-works", image), ("", other)):
        qemu(printed, "", False)
        kvm.works(image.cache, made)
    assert kvm.remembered(image.cache, image)[1] is True
    assert kvm.remembered(image.cache, other)[1] is False


def test_the_trial_is_a_line_of_its_own_once(image, monkeypatch, tmp_path):
    """It takes up to a minute, which would otherwise pass without a word."""
    monkeypatch.setattr(packages, "ensure", lambda *_: False)
    monkeypatch.setattr(commands, "build", lambda *_: image)
    monkeypatch.setattr(kvm, "attempt", lambda _image: False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lines = []

    stages = Stages(None)
    monkeypatch.setattr(stages, "line", lambda name, text, _seconds: lines.append((name, text)))
    lab = Lab(tmp_path / "lab")
    lab.cache.mkdir()
    assert [commands.try_kvm(lab, stages) for _ in range(2)] == [False, False]
    assert lines == [("kvm", "does not run a guest")]
