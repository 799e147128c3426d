"""The demo from start to proof: import under load, kill a worker, restart the database, wait, hold the books together."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from fencepost.app import App
from fencepost.demo.importer import TABLE, Importer, Outside
from fencepost.demo.outside import Witness, Workers
from fencepost.demo.progress import Display, Moment
from fencepost.demo.proof import Proof, prove
from fencepost.demo.rows import Record
from fencepost.embedded.server import EmbeddedServer
from fencepost.errors import FencepostError

PROCESSES = 2
LONGEST_S = 240.0
KILL_AT, RESTART_AT = 0.2, 0.5  # shares of the jobs that are done

DONE = "select task, count(*) from fencepost.jobs where state = 'succeeded' group by task"
OPEN = "select count(*) filter (where state = 'running'), count(*) from fencepost.jobs where state in ('queued', 'running')"
FAILED = (
    "select job_id, last_error_code from fencepost.jobs where state not in ('queued', 'running', 'succeeded') limit 3"
)
BUSIEST = """
select w.pid from fencepost.worker w join fencepost.running r on r.token = w.token
 group by w.pid order by count(*) desc limit 1"""


@dataclass(slots=True)
class Told:
    """What the demo did and what came of it."""

    proof: Proof
    seconds: float
    killed: int
    restarts: int


class Story:
    """One run of the demo in ``folder``."""

    def __init__(self, folder: Path, rows: list[Record], display: Display) -> None:
        self._folder, self._rows, self._display = folder, rows, display
        self._reports = folder / "reports"
        self._reports.mkdir(parents=True)
        self._killed = self._restarts = 0
        self._server = EmbeddedServer(folder / "pg")

    def run(self) -> Told:
        """Tell the whole story. Everything that was started is ended, however it goes."""
        with contextlib.ExitStack() as stack:
            self._display.say("starting PostgreSQL (embedded, fsync on)")
            self._server.start()
            stack.callback(self._server.stop)
            self._dsn = self._server.dsn()
            app = App(self._dsn)
            app.migrate()
            app.close()
            with psycopg.connect(self._dsn, autocommit=True) as conn:
                conn.execute(TABLE)
            provider = Witness("fencepost.demo.provider", self._folder / "provider.log")
            stack.callback(provider.stop)
            sink = Witness("fencepost.demo.sink", self._folder / "sink.log")
            stack.callback(sink.stop)
            workers = Workers(self._dsn, PROCESSES, self._folder / "worker.log")
            stack.callback(workers.stop)
            began = time.monotonic()
            importer = Importer(self._dsn, self._rows, Outside(provider.port, sink.port, self._reports))
            importer.start()
            stack.callback(importer.stop)
            self._display.say(f"importing {len(self._rows):,} rows, three jobs with each; {PROCESSES} worker processes")
            self._follow(importer, workers)
            seconds = time.monotonic() - began
            self._display.say("everything ended; SIGTERM to the workers")
            if (code := workers.stop()) != 0:
                raise FencepostError(
                    f"the worker command ended with exit code {code}; see {self._folder / 'worker.log'}"
                )
            keys = [row.key for row in self._rows]
            proof = prove(self._dsn, keys, provider.log, sink.log, self._reports)
        proof.expect(
            self._killed > 0, "no worker was killed while it held running jobs: the run proved less than it should"
        )
        proof.expect(self._restarts > 0, "the database was not restarted: the run proved less than it should")
        return Told(proof, seconds, self._killed, self._restarts)

    def _follow(self, importer: Importer, workers: Workers) -> None:
        ends = time.monotonic() + LONGEST_S
        for moment, still_open in self._looks(importer):
            self._display.show(moment)
            done = sum(moment.done.values()) / (3 * len(self._rows))
            if importer.failure is not None:
                raise FencepostError(f"the import failed: {importer.failure}")
            if workers.ended is not None:
                raise FencepostError(f"the worker command ended by itself; see {self._folder / 'worker.log'}")
            if not importer.is_alive() and not still_open:
                return
            if time.monotonic() > ends:
                raise FencepostError(f"not finished within {LONGEST_S:.0f} s; see {self._folder / 'worker.log'}")
            if done >= KILL_AT and not self._killed:
                self._kill_busiest()
            elif done >= RESTART_AT and not self._restarts:
                self._restart()

    def _looks(self, importer: Importer) -> Iterator[tuple[Moment, int]]:
        """Look every 0.3 s at the database, on a connection that may be lost at any time."""
        while True:
            with contextlib.suppress(psycopg.OperationalError), self._connect() as conn:
                while True:
                    rows = conn.execute(DONE).fetchall()
                    running, still_open = conn.execute(OPEN).fetchall()[0]
                    yield Moment(importer.imported, len(self._rows), dict(rows), running, 0), still_open
                    time.sleep(0.3)
            time.sleep(0.1)

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self._dsn, autocommit=True, connect_timeout=5)

    def _kill_busiest(self) -> None:
        with self._connect() as conn:
            row = conn.execute(BUSIEST).fetchone()
        if row is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(row[0], signal.SIGKILL)
                self._killed += 1
                self._display.say(f"killed worker process {row[0]} with SIGKILL while it held running jobs")

    def _restart(self) -> None:
        self._display.say("restarting PostgreSQL under load")
        began = time.monotonic()
        self._server.stop()
        self._server.start()
        self._restarts += 1
        self._display.say(f"PostgreSQL is back after {time.monotonic() - began:.1f} s; nobody was told")
