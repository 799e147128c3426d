"""Leases that somebody else has by now, and leases that nobody knows of (SPEC C3, C6, W4, W5)."""

from __future__ import annotations

import pytest

from commits import commits_wait
from waiting import always, eventually
from worker.scene import SLOW, Scene


@pytest.mark.spec("C3", "W5")
def test_a_body_whose_lease_was_taken_away_hears_of_it_with_the_next_beat(scene: Scene) -> None:
    """Long before its local deadline, which is for those who hear nothing."""
    scene.worker(leader=False, heartbeat_ttl=600).wait_children()
    scene.put("sleep", seconds=600)
    scene.wait("begin", "sleep")

    scene.rows("UPDATE fencepost.running SET run_count = run_count + 1, token = 1 RETURNING id")

    (broken,) = scene.wait("broken", "sleep")
    assert broken["run"] == 1
    assert scene.rows("SELECT run_count, token FROM fencepost.running") == [(2, 1)]


@pytest.mark.spec("C3", "L1")
def test_a_fence_that_was_lost_is_given_to_no_second_body(scene: Scene) -> None:
    """A failover forgot the claim. In the one slot the first body has ended when its fence comes again: it goes back."""
    scene.put("sleep", seconds=600, then=0)
    with scene.database.connect() as conn:
        conn.execute("CREATE TABLE public.before AS TABLE fencepost.ready")
    scene.worker(slots=1).wait_children()
    scene.wait("begin", "sleep")

    scene.rows(
        "WITH forgotten AS (DELETE FROM fencepost.running RETURNING id)"
        " INSERT INTO fencepost.ready SELECT b.* FROM public.before b JOIN forgotten USING (id) RETURNING id"
    )

    again = scene.wait("begin", "sleep", count=2)[1]
    assert again["run"] == 2
    scene.wait_state("succeeded", "sleep")
    assert scene.runs("sleep") == [("release", False, None)]


@pytest.mark.spec("W4", "C6", "L3")
def test_a_claim_whose_answer_was_lost_goes_back_unspent(own_scene: Scene) -> None:
    """Committed, and nobody heard of it: the process asks what it is believed to hold, and gives that back at once."""
    own_scene.worker(leader=False, heartbeat_interval=30, heartbeat_ttl=600).wait_children()
    claims = "SELECT pid FROM pg_stat_activity WHERE application_name = 'fencepost worker' AND wait_event = 'SyncRep'"
    with commits_wait(own_scene.database.dsn) as conn:
        conn.execute("SELECT fencepost.enqueue('noop', '{}', 'noop')")
        ((pid,),) = eventually(lambda: own_scene.rows(claims), within=SLOW)
        conn.execute("SELECT pg_terminate_backend(%s)", [pid])
        eventually(lambda: own_scene.rows("SELECT count(*) FROM fencepost.running") == [(1,)], within=SLOW)

    own_scene.wait_state("succeeded", "noop")
    assert own_scene.runs("noop") == [("release", False, None)]
    assert [event["run"] for event in own_scene.all("begin", "noop")] == [2]
    assert own_scene.job("noop")["attempts"] == 1


@pytest.mark.spec("W6", "C4")
def test_a_lease_is_kept_until_the_outcome_is_written(scene: Scene) -> None:
    """The body is over and the database refuses its outcome for longer than the ttl, but takes beats: nobody runs it again."""
    with scene.database.connect() as conn:
        conn.execute(
            """
            CREATE FUNCTION public.no_success() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION 'no success for now' USING ERRCODE = '40001'; END $$;
            CREATE TRIGGER no_success BEFORE INSERT ON fencepost.outcome FOR EACH ROW WHEN (NEW.state = 'succeeded')
              EXECUTE FUNCTION public.no_success();
            """
        )
        scene.worker(heartbeat_ttl=5).wait_children()
        scene.put("noop")
        scene.wait("end", "noop")

        always(lambda: scene.rows("SELECT state, run_count FROM fencepost.jobs") == [("running", 1)], during=8)

        conn.execute("DROP TRIGGER no_success ON fencepost.outcome")
    scene.wait_state("succeeded", "noop")
    assert [event["run"] for event in scene.all("begin", "noop")] == [1]
    assert scene.runs("noop") == []


@pytest.mark.spec("C3", "C5", "W5")
def test_two_runs_of_one_job_in_one_process_hear_each_its_own(scene: Scene) -> None:
    """Found by the torture: the process whose lease was taken claims the job again. The first body is told, the second not."""
    scene.worker(slots=2, leader=False, heartbeat_ttl=600).wait_children()
    scene.put("sleep", seconds=600, then=600)
    scene.wait("begin", "sleep")

    with scene.database.connect() as conn, conn.transaction():
        conn.execute(
            "UPDATE fencepost.running SET heartbeat_at = heartbeat_at - interval '1 h', claimed_at = claimed_at - interval '1 h'"
        )
        assert conn.execute("SELECT answer FROM fencepost.rescue_v1(10)").fetchall() == [("accepted",)]

    assert [event["run"] for event in scene.wait("begin", "sleep", count=2)] == [1, 2]
    (broken,) = scene.wait("broken", "sleep")
    assert broken["run"] == 1
    always(lambda: len(scene.all("broken", "sleep")) == 1, during=1.5)
    assert scene.rows("SELECT run_count FROM fencepost.running") == [(2,)]
