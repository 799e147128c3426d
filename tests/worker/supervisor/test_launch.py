"""What a child is given and what it is not (worker.md 3.10, 3.18; review A15 e)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from servers import Database
from waiting import eventually
from worker.supervisor.fleet import FleetMaker

SECRET = "hunter2-not-in-ps"


@pytest.mark.spec("K1")
def test_no_password_in_arguments_or_environment(fleet: FleetMaker, database: Database) -> None:
    """Arguments show in ``ps`` for every user of the machine."""
    database.dsn = f"{database.dsn}{'&' if '?' in database.dsn else '?'}password={SECRET}"
    if "://" not in database.dsn:
        database.dsn = database.dsn.replace("?", " ").replace("&", " ")
    scene = fleet()
    (born,) = scene.wait("born")
    scene.wait("Beaten")

    for pid in (scene.process.pid, born["pid"]):
        assert SECRET not in Path(f"/proc/{pid}/cmdline").read_text()
        assert SECRET not in Path(f"/proc/{pid}/environ").read_text()

    assert all(word.isdigit() for word in born["argv"][1:])
    assert SECRET not in scene.logged()


def test_a_child_inherits_its_own_pipes_and_no_other(fleet: FleetMaker) -> None:
    """3.10: whoever else holds the write end of the control pipe hides the supervisor's death."""
    scene = fleet(processes=2)

    for event in scene.wait("born", 2):
        _, control, _, hello = map(int, event["argv"][1:])
        assert set(event["pipes"]) == {control, hello}


def test_the_end_of_the_pipe_is_the_supervisors_death(fleet: FleetMaker) -> None:
    scene = fleet(processes=2)
    scene.wait("Beaten", 2)

    os.kill(scene.process.pid, signal.SIGKILL)

    eventually(lambda: len(scene.all("orphan")) == 2, within=30)


def test_without_a_dsn_of_its_own_the_supervisor_takes_the_childs(fleet: FleetMaker) -> None:
    scene = fleet(dsn_by_flag=False)

    scene.wait("Beaten", 2)


def test_a_supervisor_loads_neither_user_code_nor_the_libraries_for_it() -> None:
    """worker.md 6.13: small, and nothing in it that a user's code could break."""
    seen = subprocess.run(
        [sys.executable, "-c", "import sys, fencepost.worker.supervisor.main; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")},
    ).stdout.split()

    forbidden = ("pydantic", "click", "fencepost.tasks", "fencepost.app", "fencepost.config", "fencepost.worker.child")
    assert [name for name in seen if name.startswith(forbidden)] == []
