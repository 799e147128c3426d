"""The guard that the other tests run under: it can fail, and it knows the whole table of edges."""

from __future__ import annotations

import psycopg
import pytest

from fencepost.domain.states import EDGES, State
from servers import Database
from sql.guard import PLACES

ENQUEUE = "select fencepost.enqueue('t', '{}', 'j', p_queue => 'q')"


@pytest.mark.spec("L1", "L2")
@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ("delete from fencepost.ready", "lies in"),
        ("insert into fencepost.delayed select * from fencepost.ready", "lies in"),
        ("delete from fencepost.job", None),
        (("select fencepost.claim_v1(1, '{q}', '{1}'); insert into fencepost.parked (id, run_at, queue, reason) "
         "values (1, now(), 'q', 'key')"), "lies in"),
        (("with d as (delete from fencepost.ready returning id) insert into fencepost.outcome (id, finished_at, purge_at, "
         "run_count, attempts, crashes, snoozes, state) select id, now(), now(), 0, 0, 0, 0, 'succeeded' from d"),
         "from queued to succeeded"),
    ],
)  # fmt: skip
def test_the_guard_refuses_what_the_table_does_not_have(guarded: Database, wrong: str, word: str | None) -> None:
    with guarded.connect() as conn:
        conn.execute(ENQUEUE)
        if word is None:
            conn.execute(wrong.encode())
            assert conn.execute("select what from fencepost.fsck").fetchall() == [("places",)]
            return

        with pytest.raises(psycopg.errors.RaiseException, match=word):
            conn.execute(wrong.encode())


@pytest.mark.spec("L2")
def test_an_ended_job_cannot_change_its_end(guarded: Database) -> None:
    with guarded.connect() as conn:
        conn.execute(ENQUEUE)
        conn.execute("select fencepost.cancel_v1('j')")

        with pytest.raises(psycopg.errors.RaiseException, match="from cancelled to failed"):
            conn.execute("update fencepost.outcome set state = 'failed'")


@pytest.mark.spec("L2")
def test_the_tables_themselves_refuse_an_unknown_state(guarded: Database) -> None:
    with guarded.connect() as conn:
        conn.execute(ENQUEUE)
        conn.execute("select fencepost.cancel_v1('j')")

        with pytest.raises(psycopg.errors.CheckViolation):
            conn.execute("update fencepost.outcome set state = 'done'")
        with pytest.raises(psycopg.errors.CheckViolation):  # only doubt is kept for ever
            conn.execute("update fencepost.outcome set purge_at = null")


@pytest.mark.spec("L2")
def test_each_place_is_watched(guarded: Database) -> None:
    with guarded.connect() as conn:
        rows = conn.execute(
            "select tgrelid::regclass::text from pg_trigger where tgname = 'guard' order by 1"
        ).fetchall()

    assert [name for (name,) in rows] == sorted(f"fencepost.{place}" for place in PLACES)
    assert {edge.after for edge in EDGES if edge.after} == set(State)
