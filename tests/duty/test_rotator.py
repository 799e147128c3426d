"""Consumed rows are left behind, whether they can be vacuumed or not, and no job is left with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from duty.scene import QUICK, Scene, leading
from fencepost.domain.job import NewJob
from fencepost.duty.settings import DutySettings
from fencepost.duty.vacuum import Vacuumer
from fencepost.store import duties, jobs
from waiting import eventually

ALL = 1_000_000_000


def put(scene: Scene, *names: str, **options: Any) -> None:
    """Jobs with these names."""
    scene.wire.run(jobs.enqueue(scene.sql, [NewJob(task="t", payload="{}", job_id=name, **options) for name in names]))


def advance(scene: Scene) -> None:
    """What the leader does once most of the rows are consumed."""
    scene.ask("select nextval('fencepost.ready_epoch')")


def tend(scene: Scene, sweep: int = 0) -> None:
    """One look that finds nothing consumed: it closes what is empty."""
    scene.wire.run(duties.rotate(scene.sql, ALL, 0, sweep))


def epochs(scene: Scene) -> tuple[int, int]:
    """The first and the last that are open."""
    ((first, last),) = scene.ask(
        "select o.last_value + 1, e.last_value from fencepost.ready_over o, fencepost.ready_epoch e"
    )
    return first, last


@contextmanager
def snapshot(scene: Scene) -> Iterator[psycopg.Connection[object]]:
    """Somebody's report: a transaction with an old snapshot."""
    with closing(psycopg.connect(scene.dsn, application_name="a report")) as conn:
        conn.execute("set transaction isolation level repeatable read")
        conn.execute("select count(*) from pg_class")
        yield conn


def consume(scene: Scene, jobs: int) -> None:
    """So many jobs come and go; their dead rows stay."""
    scene.ask(
        "select count(*) from fencepost.enqueue_v1(array(select gen_random_uuid()::text from generate_series(1, %(n)s)),"
        " array_fill('t'::text, array[%(n)s]), array_fill('{}'::text, array[%(n)s]))",
        n=jobs,
    )
    scene.ask("delete from fencepost.ready")


def buffers_of_a_claim(scene: Scene) -> int:
    """What a claim of one job reads, in a session that has made one before."""
    claim = "select * from fencepost.claim_v1(1, '{default}', '{1}')"
    with psycopg.connect(scene.dsn, autocommit=True) as conn:
        conn.execute(claim)
        (plan,) = conn.execute(f"explain (analyze, buffers, format json) {claim}").fetchone() or ([],)
    return int(plan[0]["Plan"]["Shared Hit Blocks"]) + int(plan[0]["Plan"]["Shared Read Blocks"])


@pytest.mark.spec("C2", "Q3")
def test_claims_take_both_open_epochs_in_the_promised_order(scene: Scene) -> None:
    """An urgent job of the new epoch comes before everything of the old one; more than the quota is not taken."""
    put(scene, "old 1", "old 2")
    advance(scene)
    put(scene, "urgent", priority=9)
    put(scene, "new")
    worker = scene.worker()

    assert [job.job_id for job in worker.claim(2)] == ["urgent", "old 1"]
    assert [job.job_id for job in worker.claim(9)] == ["old 2", "new"]


def test_an_epoch_is_over_when_it_is_empty_and_nobody_may_add_to_it(scene: Scene) -> None:
    """A caller's open transaction has a job for the old epoch: it is claimed there, whenever that commits."""
    put(scene, "first")
    with closing(psycopg.connect(scene.dsn)) as caller:
        caller.execute("select fencepost.enqueue('t', '{}', 'late')")
        advance(scene)
        tend(scene)
        assert epochs(scene) == (0, 1)  # "first" lies there

        worker = scene.worker()
        assert [job.job_id for job in worker.claim()] == ["first"]
        tend(scene)
        assert epochs(scene) == (0, 1)  # empty, but for the caller

        caller.commit()
        tend(scene)
        assert epochs(scene) == (0, 1)
    assert [job.job_id for job in worker.claim()] == ["late"]
    tend(scene)
    assert epochs(scene) == (1, 1)


@pytest.mark.spec("Q1")
def test_a_caller_with_an_old_snapshot_enqueues_where_claims_look(scene: Scene) -> None:
    """At REPEATABLE READ a table would tell it an epoch that is over by now; a sequence does not."""
    with snapshot(scene) as caller:
        advance(scene)
        tend(scene)
        assert epochs(scene) == (1, 1)
        caller.execute("select fencepost.enqueue('t', '{}', 'a')")
        caller.commit()

    assert [job.job_id for job in scene.worker().claim()] == ["a"]


@pytest.mark.parametrize("epoch", [0, 7], ids=["over", "not begun"])
def test_rows_where_nobody_reads_are_moved_to_where_claims_look(scene: Scene, epoch: int) -> None:
    """Written by hand, or restored from a backup that is older than the sequences."""
    advance(scene)
    tend(scene)
    put(scene, "a")
    scene.ask("update fencepost.ready set epoch = %s", epoch)
    worker = scene.worker()
    assert worker.claim() == []

    tend(scene, sweep=100)

    assert [job.job_id for job in worker.claim()] == ["a"]


@pytest.mark.parametrize("rotating", [True, False], ids=["rotating", "as it would be without"])
def test_claims_do_not_read_what_an_old_snapshot_keeps(scene: Scene, rotating: bool) -> None:
    """40,000 rows are consumed under a snapshot that keeps all of them; what does the next claim read?"""
    with snapshot(scene):
        for _ in range(8):
            consume(scene, 5000)
            if rotating:
                advance(scene)
                tend(scene)
        put(scene, "now", "next")
        read = buffers_of_a_claim(scene)

    assert (read < 200) is rotating, read


def test_the_leader_leaves_consumed_rows_behind_by_itself(scene: Scene) -> None:
    with snapshot(scene), leading(scene, QUICK):
        before = epochs(scene)
        consume(scene, 20_000)

        eventually(lambda: epochs(scene) == (before[1] + 1, before[1] + 1))

        put(scene, "now")
        assert [job.job_id for job in scene.worker().claim()] == ["now"]


def test_the_leader_names_who_keeps_dead_rows_once(
    scene: Scene, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session, with its name and its age; when it is gone and another comes, that is told anew."""
    monkeypatch.setattr("fencepost.duty.vacuum._PATIENCE_S", 0.0)
    vacuumer = Vacuumer(scene.wire, scene.sql, DutySettings(vacuum_after=1000))

    for told in (1, 2):
        with snapshot(scene) as report:
            consume(scene, 2000)
            eventually(lambda: scene.wire.run(duties.vacuum_candidates(scene.sql, 1000)))
            vacuumer.run_turn()
            vacuumer.run_turn()

            said = [record.getMessage() for record in caplog.records if "old snapshot" in record.getMessage()]
            assert len(said) == told
            assert said[-1].startswith(f"the session {report.info.backend_pid} (a report, idle in transaction) holds")
        vacuumer.run_turn()
    assert scene.wire.run(duties.vacuum_candidates(scene.sql, 1000)) == []
