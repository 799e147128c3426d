"""What process trees cost."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from fencepost.bench.cost import Meter, cpu_s
from fencepost.bench.flow import Look, between
from waiting import eventually

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

NOBODY = 2**22 + 1
BUSY = "import time\nends = time.process_time() + 0.3\nwhile time.process_time() < ends: pass\n"
A_CHILD = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}])\ninput()\n"
A_BUSY_CHILD = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {BUSY + 'input()'!r}])\ninput()\n"


@linux
@pytest.mark.parametrize("program", [BUSY + "input()", A_CHILD, A_BUSY_CHILD], ids=["itself", "ended", "living"])
def test_a_meter_counts_a_process_and_its_children(program: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    try:
        meter = Meter(process.pid)

        assert eventually(lambda: (meter.spent_s() or 0) >= 0.25, within=30)
    finally:
        process.kill()
        process.communicate()


@linux
def test_a_meter_counts_this_process_only_if_asked() -> None:
    idle = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        mine, theirs = Meter(idle.pid, own=True), Meter(idle.pid)

        ends = time.process_time() + 0.5
        while time.process_time() < ends:
            pass

        assert (mine.spent_s() or 0) - (theirs.spent_s() or 0) >= 0.45
    finally:
        idle.kill()
        idle.communicate()


def test_a_process_that_nobody_can_look_at_makes_the_whole_unknown() -> None:
    assert cpu_s(NOBODY) is None
    assert Meter(NOBODY).spent_s() is None
    assert Meter(None, os.getpid()).spent_s() is None


def seconds(*jobs: int, every: float = 1.0, cpu_s: float | None = 1.0) -> list[Look]:
    return [
        Look(number * every, total, total * 100.0, total * 3.0, None if cpu_s is None else total * cpu_s / 10_000)
        for number, total in enumerate(jobs)
    ]


def test_the_edges_of_a_flow_are_compared() -> None:
    looks = seconds(0, 100, 200, 250, 300)

    first, last = between(looks, 2.0), between(looks[::-1], 2.0)

    assert first == {"jobs_per_s": 100, "wal_bytes_per_job": 100, "buffers_per_job": 3, "cpu_s_per_10k": 1}
    assert last["jobs_per_s"] == 50


def test_looks_that_came_late_are_compared_all_the_same() -> None:
    looks = seconds(0, 100, 200, every=7.0, cpu_s=None)

    assert between(looks, 2.0)["jobs_per_s"] == pytest.approx(100 / 7, abs=0.1)
    assert between(looks, 2.0)["cpu_s_per_10k"] is None
    assert between(looks[::-1], 12.0)["jobs_per_s"] == pytest.approx(100 / 7, abs=0.1)
