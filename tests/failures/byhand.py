"""Rows as somebody with psql writes them, a restore brings them back, or a newer release leaves them; and every reader."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from cli.shell import Ended, fencepost
from waiting import settled
from worker.scene import Scene, Worker

STATES = ("queued", "running", "succeeded", "failed")
NOW = {"run_at": "now"}


class Hand:
    """Writes into the tables, past every function."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self.conn = conn

    def insert(self, table: str, **columns: Any) -> None:
        self.conn.execute(
            sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})").format(
                sql.Identifier("fencepost", table),
                sql.SQL(", ").join(map(sql.Identifier, columns)),
                sql.SQL(", ").join([sql.Placeholder()] * len(columns)),
            ),
            list(columns.values()),
        )

    def job(self, job_id: str, task: str = "noop", payload: str = "{}", **columns: Any) -> int:
        """A row of ``job`` in no place; its id."""
        self.insert(
            "job",
            **{"job_id": job_id, "task": task, "payload": payload, "version": 1, "queue": "default", "priority": 0}
            | NOW
            | columns,
        )
        found = self.conn.execute("SELECT id FROM fencepost.job WHERE job_id = %s", [job_id]).fetchone()
        assert found is not None
        return int(found[0])

    def put(
        self,
        job_id: str,
        task: str = "noop",
        payload: str = "{}",
        *,
        place: str = "ready",
        at: Mapping[str, Any] | None = None,
        **columns: Any,
    ) -> str:
        """A job and its row in ``place`` with the columns ``at``; its job_id."""
        self.place(place, self.job(job_id, task, payload, **columns), **(at or {}))
        return job_id

    def place(self, place: str, id_: int, **columns: Any) -> None:
        """A row in ``place`` for this id, whether there is such a job or not."""
        queued = NOW | {"queue": "default"}
        filled: dict[str, Mapping[str, Any]] = {
            "ready": queued,
            "delayed": queued,
            "parked": queued | {"reason": "unknown"},
            "running": RUNNING,
            "outcome": {
                "finished_at": "now", "purge_at": "2999-01-01", "run_count": 1, "attempts": 1, "crashes": 0, "snoozes": 0,
                "state": "succeeded",
            },
        }  # fmt: skip
        self.insert(place, **{"id": id_, **filled[place], **columns})


RUNNING: Mapping[str, Any] = {
    "token": 4711, "run_at": "now", "claimed_at": "yesterday", "ttl_s": 5.0, "keep_ok_s": 86400.0, "keep_bad_s": 86400.0,
    "run_count": 1, "bytes": 2, "priority": 0, "attempts": 1, "crashes": 0, "snoozes": 0, "max_attempts": 5,
    "max_crashes": 3, "keyed": False, "at_most_once": False, "on_lost": "requeue", "queue": "default", "fair_key": "",
}  # fmt: skip
"""The lease of a worker that is long gone."""


def assert_at_rest(scene: Scene, worker: Worker, children: list[int], good: Iterable[str]) -> None:
    """The good ones ran once, nothing spins, and the processes are those of the beginning."""
    scene.wait_state("succeeded", *good)
    runs = scene.rows("SELECT job_id, run_count FROM fencepost.jobs WHERE job_id = ANY (%s)", list(good))
    assert {job_id: count for job_id, count in runs if count != 1} == {}
    for job_id in good:
        assert len(scene.all("begin", job_id)) == 1, job_id
    settled(lambda: _picture(scene), during=1.2)
    assert worker.children() == children
    logged = worker.logged()
    for word in ("cannot go on", "failed and will be tried again", "Traceback", "could not be followed"):
        assert word not in logged, logged[-6000:]


def _picture(scene: Scene) -> tuple[object, ...]:
    """Where every row is, how often each job ran, and what was put aside."""
    places = scene.rows(
        """
        SELECT * FROM (
          SELECT 'ready' AS place, id, run_count FROM fencepost.ready
          UNION ALL SELECT 'delayed', id, run_count FROM fencepost.delayed
          UNION ALL SELECT 'parked', id, run_count FROM fencepost.parked
          UNION ALL SELECT 'running', id, run_count FROM fencepost.running
          UNION ALL SELECT 'outcome', id, run_count FROM fencepost.outcome) x
         ORDER BY place, id, run_count
        """
    )
    aside = scene.rows("SELECT n, id, place, reason FROM fencepost.quarantine ORDER BY n")
    return tuple(places), tuple(aside), len(scene.events())


def assert_readable(scene: Scene, job_ids: Sequence[str] | None = None) -> None:
    """Every command that reads and every view answers, on paper and as JSON that a strict reader takes."""
    for view in ("jobs", "runs", "fsck"):
        scene.rows(f"SELECT x::text FROM fencepost.{view} x")  # noqa: S608 - three words of ours
    for words in (["status"], ["queues", "list"], ["jobs", "list", "--limit", "500"]):
        assert_printable(_read(scene, *words), words)
        strict(_read(scene, *words, "--json"))
    for state in STATES:  # each walks a place of its own
        assert_printable(_read(scene, "jobs", "list", "--state", state), state)
    strict(_read(scene, "jobs", "list", "--json", "--label", "lost"))
    if job_ids is None:
        found = scene.rows("SELECT job_id FROM fencepost.job WHERE job_id NOT LIKE 'good%' ORDER BY id")
        job_ids = [job_id for (job_id,) in found]
    for job_id in job_ids:
        assert_printable(_read(scene, "jobs", "show", "--", job_id), job_id)
        readable(scene, job_id)


def _read(scene: Scene, *words: str) -> Ended:
    ended = fencepost(*words, env={"FENCEPOST_DSN": scene.database.dsn})
    assert ended.code == 0, (words, ended.err)
    return ended


def strict(ended: Ended) -> Any:
    """The one JSON document that a command printed, without NaN and Infinity."""

    assert_printable(ended, "JSON")

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(ended.out, parse_constant=refuse)


def assert_printable(ended: Ended, words: object) -> None:
    """No stored text may paint the terminal."""
    text = ended.out.replace("\n", "")
    assert text.isprintable(), (words, {char for char in text if not char.isprintable()})


def readable(scene: Scene, job_id: str) -> Any:
    """What ``jobs show --json`` says."""
    return strict(_read(scene, "jobs", "show", "--json", "--", job_id))
