"""Signs of life, as a job process looks for those of its worker (worker.md 2; SPEC C5)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fencepost.worker.board import boot_ns
from fencepost.worker.child.held import Held
from fencepost.worker.life import LOOK_S, Silence, Stillness
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
    worker = Stillness(process.pid)

    os.kill(process.pid, signal.SIGSTOP)
    eventually(lambda: worker.look() > 0.6)

    os.kill(process.pid, signal.SIGCONT)
    eventually(lambda: worker.look() == 0.0)


@pytest.mark.spec("C5", "C11")
def test_a_machine_that_stood_still_blames_nobody(process: subprocess.Popen[bytes]) -> None:
    """We did not look meanwhile: however late a look comes, it counts for one."""
    worker = Stillness(process.pid)
    os.kill(process.pid, signal.SIGSTOP)
    eventually(lambda: worker.look() > 0)
    before = worker.seconds

    worker._looked -= 3600

    assert worker.look() == before + LOOK_S


def test_where_the_system_tells_nothing_nobody_is_taken_for_dead() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    worker = Stillness(gone.pid)

    assert [worker.look() for _ in range(3)] == [0.0] * 3


@pytest.mark.spec("C4", "C5", "W5")
def test_a_silence_ends_a_beaten_lease_by_its_length_and_a_plain_one_at_its_time() -> None:
    sent = boot_ns()
    held = Held(replace(CLAIMED, ttl_s=30.0), 1, 0, sent, None)

    held.beat_s = 5.0
    beaten = held.silence()
    held.beat_s = 0.0
    plain = held.silence()

    assert beaten == Silence(22.0)
    assert plain == Silence(1.0, sent + 27 * 10**9)


@pytest.mark.spec("C4", "C5")
def test_a_body_is_told_a_moment_before_its_lease_is_taken_for_lost() -> None:
    second = 10**9

    beaten, plain = Silence(22.0), Silence(1.0, 100 * second)

    assert [beaten.nears(still, 0) for still in (20.9, 21.0)] == [False, True]
    assert [plain.nears(0.75, at) for at in (99 * second, 99 * second + second // 1000 * 750)] == [False, True]
    assert not plain.nears(0.7, 200 * second), "it lives"
