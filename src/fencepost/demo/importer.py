"""The caller's side: one transaction per row inserts the row and enqueues its three jobs, all or nothing."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.types.json import Jsonb

from fencepost.demo import jobs
from fencepost.demo.rows import Record

TABLE = """
create table if not exists record (
  key text primary key,
  data jsonb not null,
  imported_at timestamptz not null default now()
)"""


@dataclass(frozen=True, slots=True)
class Outside:
    """Where the jobs' effects go."""

    provider_port: int
    sink_port: int
    reports: Path


class Importer(threading.Thread):
    """Imports the rows in a thread; a lost connection only means: the same row again.

    The row's transaction may have committed without our hearing of it. Doing it again is harmless: the row is there
    already, and each enqueue answers ``exists``, since a job's identity is its ``job_id``.
    """

    def __init__(self, dsn: str, rows: list[Record], outside: Outside) -> None:
        super().__init__(name="importer", daemon=True)
        self._dsn, self._rows, self._outside = dsn, rows, outside
        self._stop_asked = threading.Event()
        self.imported = 0
        self.repeated = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Import every row, whatever the database does meanwhile."""
        left = list(reversed(self._rows))
        try:
            while left and not self._stop_asked.is_set():
                try:
                    with psycopg.connect(self._dsn, autocommit=True, connect_timeout=5) as conn:
                        while left and not self._stop_asked.is_set():
                            self._import_one(conn, left[-1])
                            left.pop()
                            self.imported += 1
                except psycopg.OperationalError:
                    self.repeated += 1
                    self._stop_asked.wait(0.1)
        except BaseException as error:  # noqa: BLE001 - the story reads it and ends with it
            self.failure = error

    def stop(self) -> None:
        """Stop after the row in hand."""
        self._stop_asked.set()

    def _import_one(self, conn: psycopg.Connection[tuple[object, ...]], row: Record) -> None:
        title = row.data.get("name") or row.key
        url = f"http://127.0.0.1:{self._outside.provider_port}/registrations"
        with conn.transaction():
            conn.execute(
                "insert into record (key, data) values (%s, %s) on conflict (key) do nothing",
                (row.key, Jsonb(row.data)),
            )
            jobs.register.using(tx=conn, job_id=f"register:{row.key}").enqueue(record=row.key, data=row.data, url=url)
            jobs.announce.using(tx=conn, job_id=f"announce:{row.key}").enqueue(
                record=row.key, title=title, host="127.0.0.1", port=self._outside.sink_port
            )
            jobs.render.using(tx=conn, job_id=f"render:{row.key}").enqueue(
                record=row.key, data=row.data, folder=str(self._outside.reports)
            )
