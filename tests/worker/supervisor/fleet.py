"""A supervisor under test, in a process of its own, and what its fake children noted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from servers import Database
from waiting import eventually

HERE = Path(__file__).parent
SLOW = 30.0
"""Seconds that a loaded machine may take for what is a matter of milliseconds."""


class Fleet:
    """``plan`` is the fake children's (see fake_child.py); ``settings`` are the worker's."""

    def __init__(
        self,
        folder: Path,
        database: Database | None,
        plan: dict[str, Any],
        *,
        dsn_by_flag: bool = True,
        wrap: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        self.folder, self.database = folder, database
        self.has_own_pids = "unshare" in wrap
        self.events_file = folder / "events"
        dsn = database.dsn if database else "postgresql://nobody@127.0.0.1:1/none"
        (folder / "plan.json").write_text(json.dumps({"events": str(self.events_file), "dsn": dsn, **plan}))
        usual: dict[str, Any] = {"heartbeat_interval": 0.5, "heartbeat_ttl": 3.0, "shutdown_timeout": 1.0}
        spec = {
            "plan": str(folder / "plan.json"),
            "settings": usual | settings,
            "dsn": dsn if dsn_by_flag else None,
            "program": [str(HERE / "fake_child.py")],
        }
        (folder / "spec.json").write_text(json.dumps(spec))
        self.log = folder / "log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [*wrap, sys.executable, str(HERE / "drive.py"), str(folder / "spec.json")],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def close(self) -> None:
        """End it and all that its children left, whatever state they are in."""
        pids: set[int] = set()
        if not self.has_own_pids:  # else the kernel ends them with the first of their namespace
            pids = {event["pid"] for event in self.events()}
            pids |= {event[name] for event in self.all("stray") for name in ("stray", "body")}
        for pid in (self.process.pid, *pids):
            for send in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    send(pid, signal.SIGKILL)
        self.process.wait()

    # ------------------------------------------------------------------------------------------------------ looking

    def events(self) -> list[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError):
            return [json.loads(line) for line in self.events_file.read_text().splitlines() if line.endswith("}")]
        return []

    def all(self, what: str) -> list[dict[str, Any]]:
        return [event for event in self.events() if event["what"] == what]

    def wait(self, what: str, count: int = 1, within: float = SLOW) -> list[dict[str, Any]]:
        """The events of this name, once there are so many."""

        def enough() -> list[dict[str, Any]]:
            if self.process.poll() is not None and len(self.all(what)) < count:
                raise AssertionError(f"ended with {self.process.returncode} before {what!r}:\n{self.logged()}")
            found = self.all(what)
            return found if len(found) >= count else []

        return eventually(enough, within=within)

    def logged(self) -> str:
        return self.log.read_text()

    def wait_log(self, text: str, within: float = SLOW) -> None:
        eventually(lambda: text in self.logged() or None, within=within)

    def ends(self, within: float = SLOW) -> int:
        return self.process.wait(within)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        assert self.database is not None
        with self.database.connect() as conn:
            return conn.execute(statement).fetchall()

    def value(self, statement: str) -> Any:
        return self.rows(statement)[0][0]

    def until(self, statement: str, wanted: Any, within: float = SLOW) -> None:
        eventually(lambda: self.value(statement) == wanted, within=within)


def enqueue(database: Database, count: int, **options: Any) -> None:
    """So many jobs of a task that nobody knows, by the public SQL function."""
    with database.connect() as conn:
        names = "".join(f", {name} => %({name})s" for name in options)
        conn.execute(
            f"SELECT fencepost.enqueue('scene.job', p_job_id => 'job:' || n{names}) FROM generate_series(1, {count}) n",
            options,
        )


FleetMaker = Callable[..., Fleet]
