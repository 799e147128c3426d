"""A whole worker under test: supervisor, real children, the scenario app; and what its bodies noted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from fencepost.store import lenient
from processtable import is_alive
from servers import Database
from waiting import eventually

HERE = Path(__file__).parent
SLOW = 40.0
"""Seconds that a loaded machine may take for what is a matter of milliseconds."""

FAST = {"heartbeat_interval": 0.5, "heartbeat_ttl": 5.0, "poll_interval": 0.1, "shutdown_timeout": 2.0}
"""The defaults divided by ten, but for the ttl: on a loaded machine a beat may take a second or two."""


class Scene:
    """One database, any number of workers on it. ``settings`` are the worker's, FAST by default."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._folder = tempfile.TemporaryDirectory(prefix="fps-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        self.events_file = self.folder / "events"
        self.workers: list[Worker] = []

    def close(self) -> None:
        for worker in self.workers:
            worker.kill_all()
        for event in self.events():
            for name in ("pid", "child", "stray"):
                if name in event and _is_of(event[name], self.events_file):
                    _kill(event[name])
        self._folder.cleanup()

    # ------------------------------------------------------------------------------------------------------- workers

    def worker(
        self,
        *,
        wrap: Sequence[str] = (),
        leader: bool = True,
        app: str = "scenario_app:app",
        dsn: str | None = None,
        **settings: Any,
    ) -> Worker:
        """``dsn`` where it goes another way to the database than the test does."""
        made = Worker(self, wrap, leader, app, dsn or self.database.dsn, FAST | settings)
        self.workers.append(made)
        return made

    def environment(self) -> dict[str, str]:
        """Of each worker. What the tests themselves were told to import stays behind our own folder."""
        path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
        told = {"SCENE_EVENTS": str(self.events_file), "SCENE_DSN": self.database.dsn, "PYTHONPATH": path}
        return {**os.environ, **told}

    def processes(self) -> dict[int, str]:
        """Whoever carries this scene's environment and lives, with its command: workers, job processes, strays."""
        found = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()}
        return {pid: _cmdline(pid) for pid in sorted(found) if _is_of(pid, self.events_file) and is_alive(pid)}

    # ---------------------------------------------------------------------------------------------------------- jobs

    def put(self, task: str, *, key: str | None = None, count: int = 1, **arguments: Any) -> list[str]:
        """Enqueue by the public SQL function; job_ids are ``task`` or ``key``, numbered if several."""
        name = key or task
        names = [name] if count == 1 else [f"{name}:{n}" for n in range(count)]
        with self._connect() as conn:
            for job_id in names:
                conn.execute("SELECT fencepost.enqueue(%s, %s::jsonb, %s)", [task, json.dumps(arguments), job_id])
        return names

    def job(self, job_id: str) -> dict[str, Any]:
        """The row of the view ``jobs``."""
        with self._connect() as conn:
            cursor = conn.execute("SELECT * FROM fencepost.jobs WHERE job_id = %s", [job_id])
            row = cursor.fetchone()
            assert row is not None, job_id
            assert cursor.description is not None
            return dict(zip([column.name for column in cursor.description], row, strict=True))

    def state(self, job_id: str) -> str:
        return str(self.value("SELECT state FROM fencepost.jobs WHERE job_id = %s", job_id))

    def wait_state(self, state: str, *job_ids: str, within: float = SLOW) -> None:
        def there() -> bool:
            self.check()
            return all(self.state(job_id) == state for job_id in job_ids)

        try:
            eventually(there, within=within)
        except AssertionError as error:
            found = {job_id: self.state(job_id) for job_id in job_ids}
            raise AssertionError(f"not {state} in time: {found}\n{self.logged()[-6000:]}") from error

    def runs(self, job_id: str) -> list[tuple[Any, ...]]:
        """How each run ended that did not end the job: (how, spent, error_code)."""
        return self.rows(
            "SELECT a.how, a.spent, a.error_code FROM fencepost.attempt a JOIN fencepost.job USING (id)"
            " WHERE job_id = %s ORDER BY run_count",
            job_id,
        )

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._connect() as conn:
            return conn.execute(statement, values or None).fetchall()

    def _connect(self) -> psycopg.Connection[Any]:
        """With times as the driver reads them, whatever a test has set for this database or written into it."""
        conn = self.database.connect(options="-c DateStyle=ISO")
        lenient.adopt(conn)
        return conn

    def value(self, statement: str, *values: Any) -> Any:
        return self.rows(statement, *values)[0][0]

    def running(self) -> int:
        return int(self.value("SELECT count(*) FROM fencepost.running"))

    # -------------------------------------------------------------------------------------------------------- events

    def events(self) -> list[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError):
            return [json.loads(line) for line in self.events_file.read_text().splitlines() if line.endswith("}")]
        return []

    def all(self, what: str, job: str | None = None) -> list[dict[str, Any]]:
        return [e for e in self.events() if e["what"] == what and (job is None or e["job"] == job)]

    def wait(self, what: str, job: str | None = None, count: int = 1, within: float = SLOW) -> list[dict[str, Any]]:
        def enough() -> list[dict[str, Any]]:
            self.check()
            found = self.all(what, job)
            return found if len(found) >= count else []

        try:
            return eventually(enough, within=within)
        except AssertionError as error:
            raise AssertionError(f"no {count} × {what} of {job}: {self.events()}\n{self.logged()[-6000:]}") from error

    def logged(self) -> str:
        return "".join(worker.logged() for worker in self.workers)

    def check(self) -> None:
        """A worker that nobody ended must live."""
        for worker in self.workers:
            code = worker.process.poll()
            if code is not None and not worker.may_end:
                raise AssertionError(f"the worker ended with {code}:\n{worker.logged()[-6000:]}")


class Worker:
    """One supervisor and its children."""

    def __init__(
        self, scene: Scene, wrap: Sequence[str], leader: bool, app: str, dsn: str, settings: dict[str, Any]
    ) -> None:
        self.scene, self.may_end = scene, False
        number = len(scene.workers)
        spec = scene.folder / f"spec{number}.json"
        spec.write_text(json.dumps({"app": app, "settings": settings, "dsn": dsn, "leader": leader}))
        self.log = scene.folder / f"log{number}"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [*wrap, sys.executable, str(HERE / "serve.py"), str(spec)],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=HERE / "apps",
                env=scene.environment(),
            )
        self.pid = self.process.pid

    def send(self, number: signal.Signals) -> None:
        """To the supervisor alone."""
        if number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            self.may_end = True
        os.kill(self.pid, number)

    def ends(self, within: float = SLOW) -> int:
        self.may_end = True
        return self.process.wait(within)

    def children(self) -> list[int]:
        """The pids of its worker processes."""
        with contextlib.suppress(FileNotFoundError):
            found = map(int, Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split())
            return [pid for pid in found if "fencepost.worker.child" in _cmdline(pid)]
        return []

    def wait_children(self, count: int = 1) -> list[int]:
        """Once they work: their rows are in the table of workers."""
        return eventually(lambda: self._working(count), within=SLOW)

    def _working(self, count: int) -> list[int]:
        self.scene.check()
        known = {pid for (pid,) in self.scene.rows("SELECT pid FROM fencepost.worker")}
        found = [pid for pid in self.children() if pid in known]
        return found if len(found) >= count else []

    def logged(self) -> str:
        return self.log.read_text()

    def kill_all(self) -> None:
        pids = [self.pid, *self.children()]
        for pid in pids:
            _kill(pid)
        self.process.wait()


def _cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _is_of(pid: int, events_file: Path) -> bool:
    """Whether the process carries this scene's environment: pids are used again."""
    try:
        return str(events_file) in Path(f"/proc/{pid}/environ").read_text()
    except (OSError, UnicodeDecodeError):
        return False


def _kill(pid: int) -> None:
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, signal.SIGKILL)
