"""The signal table (worker.md 2 and 4; SPEC W3): counted in the supervisor only, whoever else gets them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from servers import Database
from waiting import eventually, pause
from worker.supervisor.fleet import Fleet, FleetMaker, enqueue

STUBBORN = {"on_drain": "note"}


def drains(scene: Fleet) -> list[bool]:
    """Of each drain word that some child got, whether it said "now"."""
    return [event["now"] for event in scene.all("Drain")]


@pytest.mark.spec("W3")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_first_signal_drains_and_ends_with_code_0(fleet: FleetMaker, number: signal.Signals) -> None:
    scene = fleet(processes=2)
    scene.wait("Beaten", 2)

    os.kill(scene.process.pid, number)

    assert scene.ends() == 0
    assert drains(scene) == [False, False]


@pytest.mark.spec("W3")
def test_a_second_signal_hands_back_at_once(fleet: FleetMaker) -> None:
    """The children hear "now"; one that does not care is killed 2 s later, which is no clean stop."""
    scene = fleet(STUBBORN, shutdown_timeout=60)
    scene.wait("Beaten")
    os.kill(scene.process.pid, signal.SIGTERM)
    scene.wait("Drain")
    pause(0.3)

    os.kill(scene.process.pid, signal.SIGINT)

    assert scene.ends() == 1
    assert drains(scene) == [False, True]
    assert "did not stop in time" in scene.logged()


@pytest.mark.spec("W3")
def test_one_press_that_arrives_twice_counts_once(fleet: FleetMaker) -> None:
    """Ctrl-C reaches a wrapper and us, which passes it on: the same press within 200 ms."""
    scene = fleet(STUBBORN, shutdown_timeout=0.5)
    scene.wait("Beaten")

    os.kill(scene.process.pid, signal.SIGINT)
    pause(0.02)
    os.kill(scene.process.pid, signal.SIGINT)

    assert scene.ends() == 1
    assert drains(scene) == [False]


@pytest.mark.spec("W3")
def test_ctrl_c_in_a_terminal_reaches_the_supervisor_only(fleet: FleetMaker) -> None:
    """The children are in groups of their own."""
    scene = fleet(processes=2)
    scene.wait("Beaten", 2)

    os.killpg(scene.process.pid, signal.SIGINT)

    assert scene.ends() == 0
    assert drains(scene) == [False, False]


@pytest.mark.spec("W3")
def test_a_signal_while_children_import_ends_them_at_once(fleet: FleetMaker) -> None:
    """Phase STARTING: they have claimed nothing, so there is nothing to wait for."""
    scene = fleet({"import_s": 60}, shutdown_timeout=60)
    (born,) = scene.wait("born")

    os.kill(scene.process.pid, signal.SIGTERM)

    assert scene.ends() == 0
    assert drains(scene) == []
    assert not Path(f"/proc/{born['pid']}").exists()


@pytest.mark.spec("W3")
@pytest.mark.parametrize("milliseconds", [0, 40, 80, 160])
def test_a_signal_during_the_start_is_not_lost(fleet: FleetMaker, milliseconds: int) -> None:
    """Before the interpreter is up it kills (143), later it stops cleanly; never is it dropped (worker.md 3.7)."""
    scene = fleet(shutdown_timeout=60)
    pause(milliseconds / 1000)

    os.kill(scene.process.pid, signal.SIGTERM)

    assert scene.ends() in (0, -signal.SIGTERM)


@pytest.mark.spec("W3")
def test_signals_that_come_late_do_not_change_the_exit_code(fleet: FleetMaker) -> None:
    """worker.md 3.8: finalisation would put the default handlers back."""
    scene = fleet()
    scene.wait("Beaten")

    while scene.process.poll() is None:
        os.kill(scene.process.pid, signal.SIGTERM)
        pause(0.001)

    assert scene.process.returncode == 0


def test_under_nohup_a_hangup_changes_nothing(fleet: FleetMaker) -> None:
    scene = fleet(wrap=["nohup"])
    scene.wait("Beaten")

    os.kill(scene.process.pid, signal.SIGHUP)

    before = len(scene.all("Beaten"))
    scene.wait("Beaten", before + 2)
    assert drains(scene) == []


def test_usr1_stops_claiming_also_in_later_children(fleet: FleetMaker) -> None:
    scene = fleet()
    (born,) = scene.wait("born")
    scene.wait("Beaten")

    os.kill(scene.process.pid, signal.SIGUSR1)

    scene.wait("Quiet")
    os.kill(born["pid"], signal.SIGKILL)
    quiet = scene.wait("Quiet", 2)
    assert quiet[0]["pid"] != quiet[1]["pid"]


def test_usr2_shows_stacks_and_leases(fleet: FleetMaker, database: Database) -> None:
    enqueue(database, 1)
    scene = fleet({"claim": 1, "start": 1})
    (holds,) = scene.wait("holds")

    os.kill(scene.process.pid, signal.SIGUSR2)

    scene.wait("Show")
    scene.wait_log(f"holds: {holds['ids'][0]}#1 started")
    assert "fencepost-clerk" in scene.logged()
    assert scene.process.poll() is None


def _may_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False)
    return tried.returncode == 0


def _first_of_namespace(outside: int) -> int | None:
    children = Path(f"/proc/{outside}/task/{outside}/children").read_text().split()
    return int(children[0]) if children else None


@pytest.mark.spec("W3")
@pytest.mark.parametrize("when", ["imports", "working"])
def test_pid_1_of_a_container_stops_and_collects(fleet: FleetMaker, when: str) -> None:
    """worker.md 3.7: the kernel drops a signal that PID 1 has no handler for."""
    if not _may_unshare():
        pytest.skip("this user may not make a pid namespace")
    scene = fleet(
        wrap=["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"],
        shutdown_timeout=1,
    )
    first = eventually(lambda: _first_of_namespace(scene.process.pid))
    assert first is not None
    if when == "working":
        scene.wait("Beaten")
    else:
        eventually(lambda: _catches_term(first), every=0.001)

    os.kill(first, signal.SIGTERM)

    began = time.monotonic()
    assert scene.ends() == 0
    assert time.monotonic() - began < 10


def _catches_term(pid: int) -> bool:
    """Whether SIGTERM has a handler there."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False
