"""A torture from start to verdict. Everything that was started is ended, however it goes."""

from __future__ import annotations

import contextlib
import json
import platform
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg

from fencepost.app import App
from fencepost.errors import FencepostError
from fencepost.testing.torture import record
from fencepost.testing.torture.checker import check
from fencepost.testing.torture.crew import Crew
from fencepost.testing.torture.ground import Ground
from fencepost.testing.torture.nemesis import Kind, Nemesis
from fencepost.testing.torture.settings import SCHEMA, Settings
from fencepost.testing.torture.verdict import Verdict
from fencepost.testing.torture.world import World
from fencepost.version import __version__

_SAY_EVERY_S = 5.0
_STARTED_WITHIN_S = 60.0
_READY = "SELECT count(*) FROM fencepost_torture.worker"
_OPEN = "SELECT count(*) FROM fencepost_torture.jobs WHERE state IN ('queued', 'running')"
_DONE = "SELECT count(*) FROM fencepost_torture.outcome"


class Story:
    """One torture in ``folder``. ``say`` hears a line every few seconds."""

    def __init__(
        self, folder: Path, ground: Ground, settings: Settings, kinds: Sequence[Kind], say: Callable[[str], None]
    ) -> None:
        self._folder, self._ground, self._settings, self._kinds, self._say = folder, ground, settings, kinds, say
        self._crew = Crew(folder, ground, settings)
        self._nemesis: Nemesis | None = None

    def run(self) -> Verdict:
        """Start, strike, wait until everything has ended, write it all down, judge. Ctrl-C ends it at once."""
        settings = self._settings
        settings.write(self._folder)
        with contextlib.ExitStack() as stack:
            self._say("starting PostgreSQL")
            stack.callback(self._ground.stop)
            self._ground.start()
            self._prepare()
            stack.callback(self._crew.stop)
            self._crew.start()
            self._wait(self._ready, _STARTED_WITHIN_S, "no worker has begun")
            started = time.monotonic()
            self._say(f"{len(self._kinds)} kinds of faults for {settings.seconds:g} s, seed {settings.seed}")
            self._torment(started + settings.seconds)
            faults_end = time.monotonic()
            self._say(f"{self._landed()} faults have struck; waiting until every job has ended")
            drained = self._drain()
            drained_at = time.monotonic()
            self._crew.stop_squads()
            self._write_down()
            self._describe(started=started, faults_end=faults_end, drained=drained, drained_at=drained_at)
        return check(self._folder)

    def _prepare(self) -> None:
        with self._ground.admin() as conn:
            conn.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
        door = self._ground.door()
        app = App(door.dsn, schema=SCHEMA)
        app.migrate()
        app.close()
        door.close()
        with self._ground.admin() as conn:
            record.begin(conn)

    def _torment(self, ends: float) -> None:
        world = World(self._ground, self._crew, self._settings, random.Random(self._settings.seed))  # noqa: S311 - a seed
        nemesis = self._nemesis = Nemesis(world, self._kinds, self._folder)
        nemesis.start()
        try:
            said, done = time.monotonic(), 0
            while (now := time.monotonic()) < ends and nemesis.failure is None:
                time.sleep(0.1)
                if now - said >= _SAY_EVERY_S:
                    said = now
                    done = self._ask(_DONE) or done  # nobody answers in the middle of a restart
                    self._say(f"{ends - now:4.0f} s left: {done} jobs ended, {nemesis.landed} faults")
        finally:
            nemesis.end()
        if nemesis.failure is not None:
            raise FencepostError(f"a fault could not be made: {nemesis.failure}; files: {self._folder}")

    def _landed(self) -> int:
        return self._nemesis.landed if self._nemesis else 0

    def _drain(self) -> bool:
        """Whether the client got all its answers and every job has ended within the limit."""
        ends = time.monotonic() + self._settings.drain_within
        if not self._crew.close_load(self._settings.drain_within):
            return False
        while time.monotonic() < ends:
            if self._ask(_OPEN) == 0:
                return True
            time.sleep(0.2)
        return False

    def _write_down(self) -> None:
        with self._ground.admin() as conn:
            record.export(conn, self._folder)
            record.leaks(conn, self._folder, self._settings.secret)

    def _describe(self, *, started: float, faults_end: float, drained: bool, drained_at: float) -> None:
        settings = self._settings
        seconds = settings.seconds
        meta = {
            "seed": settings.seed,
            "seconds": seconds,
            "started": started,
            "faults_end": faults_end,
            "drained": drained,
            "drained_at": drained_at,
            "surprises": self._crew.surprises,
            "settings": {
                "ttl": settings.ttl,
                "heartbeat": settings.heartbeat,
                "margin": 0.9,
                "max_attempts": settings.max_attempts,
                "max_crashes": settings.max_crashes,
                "workers": settings.workers,
                "shutdown_timeout": settings.shutdown,
                "rate": settings.rate,
            },
            "versions": {
                "fencepost": __version__,
                "python": platform.python_version(),
                "postgresql": self._version(),
                "system": platform.platform(),
            },
            "floors": {
                "jobs": int(settings.rate * seconds * 0.5),
                "acked_share": 0.8,
                "rescues": max(3, int(seconds / 4)),
                "reruns": max(3, int(seconds / 4)),
                "refused_late_writes": max(1, int(seconds / 30)),
                "fault_kinds": len(self._kinds),
                "met_share": 0.25,
            },
            "kinds": [kind.name for kind in self._kinds],
        }
        (self._folder / "meta.json").write_text(json.dumps(meta, indent=1))

    def _version(self) -> str:
        with self._ground.admin() as conn:
            return str(conn.info.parameter_status("server_version"))

    def _ready(self) -> bool:
        return (self._ask(_READY) or 0) >= self._settings.workers

    def _ask(self, question: str) -> int | None:
        with contextlib.suppress(psycopg.Error), self._ground.admin() as conn:
            row = conn.execute(question.encode()).fetchone()
            return int(row[0]) if row else None
        return None

    def _wait(self, done: Callable[[], bool], within_s: float, why: str) -> None:
        ends = time.monotonic() + within_s
        while not done():
            if time.monotonic() > ends:
                raise FencepostError(f"{why} within {within_s:g} s; see the logs in {self._folder}")
            time.sleep(0.1)
