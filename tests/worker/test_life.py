"""Signs of life, as a job process looks for those of its worker (worker.md 2; SPEC C5)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fencepost.worker.board import boot_ns
from fencepost.worker.child.held import Held
from fencepost.worker.life import Stillness
from tasks.runs import CLAIMED
from waiting import eventually

IDLE = "import time\nwhile True: time.sleep(0.02)"
"""As idle as a worker process that only says that it lives."""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", IDLE]) as made:
        yield made
        made.kill()


@pytest.mark.spec("C5")
def test_a_process_that_does_nothing_lives_and_one_that_is_stopped_does_not(process: subprocess.Popen[bytes]) -> None:
    worker = Stillness(process.pid, most_s=0.25)

    os.kill(process.pid, signal.SIGSTOP)
    eventually(lambda: worker.look() > 0.6)

    os.kill(process.pid, signal.SIGCONT)
    eventually(lambda: worker.look() == 0.0)


@pytest.mark.spec("C5", "C11")
def test_a_machine_that_stood_still_blames_nobody(process: subprocess.Popen[bytes]) -> None:
    """We did not look meanwhile: however late a look comes, it counts for one."""
    worker = Stillness(process.pid, most_s=0.01)
    os.kill(process.pid, signal.SIGSTOP)
    worker.look()
    looked = [worker.look() for _ in range(3)]

    eventually(lambda: time.monotonic() > worker._looked + 0.2)
    late = worker.look()

    assert late - looked[-1] <= 0.01


def test_where_the_system_tells_nothing_nobody_is_taken_for_dead() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    worker = Stillness(gone.pid, most_s=60)

    assert [worker.look() for _ in range(3)] == [0.0] * 3


@pytest.mark.spec("C4", "C5", "W5")
def test_a_silence_ends_a_beaten_lease_by_its_length_and_a_plain_one_at_its_time() -> None:
    sent = boot_ns()
    held = Held(replace(CLAIMED, ttl_s=30.0), 1, 0, sent, None)

    held.beat_s = 5.0
    beaten = held.silence()
    held.beat_s = 0.0
    plain = held.silence()

    assert beaten == {"for_s": 22.0, "until_ns": 0}
    assert plain == {"for_s": 1.0, "until_ns": sent + 27 * 10**9}
