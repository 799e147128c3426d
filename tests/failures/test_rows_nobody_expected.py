"""Rows that no release of ours writes: by hand with SQL, from an old backup, from a newer release, at the edges of types.

They stop nobody else, and no reader: good jobs before and after them run once, the bad ones end where they are seen
(failed with a code, parked, or in quarantine) and nothing runs in circles (SPEC C12).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from cli.shell import fencepost
from failures.byhand import Hand, assert_at_rest, assert_readable, readable, strict
from servers import Database
from waiting import eventually
from worker.scene import Scene, Worker

MOST = 2_147_483_647
APP = "failures.apps.rows_app:app"
EDGES = ("infinity", "-infinity", "4713-01-01 00:00:00+00 BC", "294276-12-31 23:00:00+00")
LONG_AGO = ("-infinity", "4713-01-01 00:00:00+00 BC")
DURATIONS = (1e308, -1e308, 1e-300, float("nan"), float("inf"), float("-inf"), 0.0)
NEVER = ("infinity", "294276-12-31 23:00:00+00")


@contextmanager
def by_hand(scene: Scene) -> Iterator[Hand]:
    with scene.database.connect() as conn:
        yield Hand(conn)


def before_and_after(hand: Hand, number: int = 5) -> list[str]:
    """Good jobs on both sides of what is written between two calls: by id, and by priority."""
    count = hand.conn.execute("SELECT count(*) FROM fencepost.job WHERE job_id LIKE 'good%'").fetchone()
    assert count is not None
    priority = 0 if count[0] else 10
    return [hand.put(f"good {count[0] + n}", at={"priority": priority}) for n in range(number)]


def work(scene: Scene, **settings: Any) -> tuple[Worker, list[int]]:
    worker = scene.worker(app=APP, **{"slots": 4} | settings)
    return worker, worker.wait_children()


def ends(scene: Scene, *job_ids: str) -> dict[str, tuple[str, str | None]]:
    """State and code of each, once all are over."""

    def found() -> dict[str, tuple[str, str | None]]:
        scene.check()
        return {
            job_id: (state, code)
            for job_id, state, code in scene.rows(
                "SELECT job_id, state, error_code FROM fencepost.job JOIN fencepost.outcome USING (id)"
                " WHERE job_id = ANY (%s)",
                list(job_ids),
            )
        }

    try:
        eventually(lambda: len(found()) == len(job_ids), within=30, every=0.1)
    except AssertionError as error:
        waiting = {job_id: scene.job(job_id)["label"] for job_id in set(job_ids) - set(found())}
        raise AssertionError(f"not over: {waiting}\n{scene.logged()[-6000:]}") from error
    return found()


def quarantined(scene: Scene) -> dict[int, str]:
    return dict(scene.rows("SELECT id, place || ': ' || reason FROM fencepost.quarantine"))


# ------------------------------------------------------------------------------------------------------------- payloads

NESTED = '{"data": ' + "[" * 6000 + "]" * 6000 + "}"
UNREADABLE = {
    "a number without end": ("anything", '{"data": 1e5000}'),
    "the deepest nesting": ("anything", NESTED),
    "a list": ("noop", "[1, 2]"),
    "a text": ("noop", '"text"'),
    "a number": ("noop", "7"),
    "null": ("noop", "null"),
    "an endless number and nothing else": ("thread", "1e100000"),
    "in a thread": ("thread", '{"data": 1e5000}'),
    "in a process": ("process", NESTED),
    "an unknown argument": ("noop", '{"more": 1}'),
    "no argument": ("takes", "{}"),
    "the wrong type": ("takes", '{"number": "seven"}'),
    "an integer that is none": ("takes", '{"number": 1.5}'),
    "an integer without end": ("takes", '{"number": 1e5000}'),
    "a wrong inner type": ("takes", '{"number": 1, "words": [1e5000, null]}'),
    "10 MB of it": ("noop", '{"more": "' + "x" * 10_000_000 + '"}'),
}


@pytest.mark.spec("C12", "Q7")
def test_payloads_that_nobody_can_read(scene: Scene) -> None:
    """PSN-7, PSN-8, PSN-10, DEP-5; appendix A: they fail by name, without a retry, and can be shown."""
    with by_hand(scene) as hand:
        good = before_and_after(hand)
        bad = [hand.put(name, task, payload) for name, (task, payload) in UNREADABLE.items()]
        good += before_and_after(hand)
        good += [hand.put("good of 10 MB", "anything", '{"data": "' + "x" * 10_000_000 + '"}')]
        good += [hand.put("good of many", "anything", '{"data": [' + "1e300," * 20_000 + "0]}")]

    worker, children = work(scene)

    assert set(ends(scene, *bad).values()) == {("failed", "PAYLOAD_INVALID")}
    assert {scene.job(job_id)["run_count"] for job_id in bad} == {1}
    assert_at_rest(scene, worker, children, good)
    assert_readable(scene)
    assert quarantined(scene) == {}
    assert readable(scene, "a list")["payload"] == [1, 2]
    assert scene.rows("SELECT * FROM fencepost.fsck") == []


# -------------------------------------------------------------------------------------------------------- other releases


@pytest.mark.spec("C12", "Q8")
def test_tasks_and_versions_of_another_release(scene: Scene) -> None:
    """DEP-2, DEP-3, DEP-5: nobody knows them, so they wait, seen, unspent, whatever their counters say."""
    with by_hand(scene) as hand:
        good = before_and_after(hand)
        strange = [
            hand.put("unknown", "gone.task"),
            hand.put("unknown, tried often", "gone.task", at={"attempts": 10_000, "run_count": 10_000}),
            hand.put("unknown, unreadable", "gone.task", '{"data": 1e5000}'),
            hand.put("newer", version=2),
            hand.put("newest", version=MOST),
            hand.put("newest, delayed", version=MOST, place="delayed", at={"run_at": "-infinity"}),
            hand.put("no name", ""),
        ]
        good += [hand.put("good and older than old", version=-MOST)]
        good += before_and_after(hand)

    worker, children = work(scene)

    scene.wait_state("succeeded", *good)
    eventually(lambda: {scene.job(job_id)["parked_for"] for job_id in strange} == {"unknown"})
    assert_at_rest(scene, worker, children, good)
    assert scene.job("unknown, tried often")["attempts"] == 10_000
    assert {scene.job(job_id)["attempts"] for job_id in strange if "tried" not in job_id} == {0}
    assert_readable(scene)
    assert quarantined(scene) == {}


# ------------------------------------------------------------------------------------------------------------- counters


@pytest.mark.spec("C12", "R6")
def test_counters_at_the_edges_of_their_types(scene: Scene) -> None:
    """RTR-1, RTR-3: what can be counted runs; what cannot is over, by name; no size of one row keeps another from a claim."""
    with by_hand(scene) as hand:
        good = before_and_after(hand)
        hand.put("uncountable 0", at={"run_count": MOST})
        hand.put("uncountable 1", place="delayed", at={"run_count": MOST})
        hand.put("uncountable 2", at={"run_count": MOST, "keyed": True, "ckey": "limited"})
        hand.put("last run", at={"run_count": MOST - 1})
        hand.put("last run fails", "raises", at={"run_count": MOST - 1})
        edges: list[dict[str, Any]] = [
            {"crashes": 32_000},
            {"crashes": 32_000, "snoozes": 32_000},
            {"priority": -32_768},
            {"priority": 32_767},
            {"bytes": MOST},
            {"bytes": -MOST - 1},
            {"bytes": MOST, "priority": 32_767},
            {"bytes": MOST, "ckey": "wide"},
        ]
        fine = [hand.put(f"edge {n}", at=at) for n, at in enumerate(edges)]
        fine += [hand.put(f"delayed edge {n}", place="delayed", at=at) for n, at in enumerate(edges)]
        for place in ("ready", "delayed"):
            hand.put(f"tired, {place}", place=place, at={"attempts": 32_000, "crashes": 32_000, "snoozes": 32_000})
            hand.put(f"more than it may, {place}", place=place, at={"attempts": 3})
            hand.put(f"no tries, {place}", place=place, max_attempts=-32_768)
        hand.put("last try", "raises", at={"attempts": 2})
        hand.put("all tries of all", "raises", max_attempts=32_767, at={"attempts": 32_000, "crashes": 32_000})
        good += before_and_after(hand)

    worker, children = work(scene)

    scene.wait_state("succeeded", *fine, "last run")
    assert set(ends(scene, *(f"uncountable {n}" for n in range(3))).values()) == {("failed", "UNSTORABLE")}
    assert scene.job("last run")["run_count"] == MOST
    spent = [f"{name}, {place}" for name in ("tired", "more than it may", "no tries") for place in ("ready", "delayed")]
    assert set(ends(scene, *spent).values()) == {("failed", "EXHAUSTED")}
    assert [event for job_id in spent for event in scene.all("begin", job_id)] == []
    assert ends(scene, "last try") == {"last try": ("failed", "UNKNOWN")}
    assert ends(scene, "last run fails") == {"last run fails": ("failed", "UNSTORABLE")}
    assert_readable(scene)
    with by_hand(scene) as hand:
        hand.conn.execute("SELECT fencepost.cancel_v1('all tries of all')")
    ends(scene, "all tries of all")
    assert_at_rest(scene, worker, children, good)
    assert scene.rows("SELECT * FROM fencepost.fsck WHERE what <> 'key'") == []


@pytest.mark.spec("C12", "C6")
def test_leases_with_impossible_counters(scene: Scene) -> None:
    """RTR-4, STK-3: of a worker that nobody knows; the reaper ends each or puts it aside, and goes on."""
    edges: dict[str, dict[str, Any]] = {
        "attempts": {"attempts": 32_767},
        "no attempts": {"attempts": -32_768},
        "crashes": {"crashes": 32_767, "max_crashes": 32_767},
        "negative crashes": {"crashes": -32_768},
        "snoozes": {"snoozes": 32_767},
        "runs": {"run_count": MOST},
        "no runs": {"run_count": -MOST - 1},
        "bytes": {"bytes": -MOST - 1, "priority": -32_768},
        "strange words": {"on_lost": "whatever"},
        "a queue too long for an index": {"queue": "".join(chr(0x4E00 + n) for n in range(3000))},
        "a key too long for an index": {"ckey": "".join(chr(0x4E00 + n) for n in range(3000))},
    }
    with by_hand(scene) as hand:
        good = before_and_after(hand)
        for name, at in edges.items():
            hand.put(name, place="running", at=at)
        good += before_and_after(hand)

    worker, children = work(scene)

    eventually(lambda: scene.running() == 0, within=30)
    assert_at_rest(scene, worker, children, good)
    aside = set(quarantined(scene))
    for name in edges:
        job = scene.job(name)
        assert job["finished_at"] or job["next_retry_at"] or job["id"] in aside, (name, job["label"])
    assert scene.state("runs") == "failed"
    assert_readable(scene)


# ---------------------------------------------------------------------------------------------------------------- times


@pytest.mark.spec("C12", "C10", "Q6")
def test_times_at_the_edges_of_the_calendar(scene: Scene) -> None:
    """TMZ-1, STK-2: in each place and each column; what is due runs, what is over ends, what never comes waits."""
    with by_hand(scene) as hand:
        good = before_and_after(hand)
        due: list[str] = []
        expired: dict[str, tuple[str, str | None]] = {}
        waiting: list[str] = []
        leases: list[str] = []
        for n, edge in enumerate(EDGES):
            task = ("noop", "thread", "process", "thread")[n]
            due.append(hand.put(f"ready {edge}", task, at={"run_at": edge}, run_at=edge, created_at=edge))
            (due if edge in LONG_AGO else waiting).append(
                hand.put(f"delayed {edge}", place="delayed", at={"run_at": edge}, run_at=edge)
            )
            for place in ("ready", "delayed", "parked"):
                by = {"run_at": "infinity"} if place == "delayed" else {}
                for column, end in (("start_by", ("skipped", "EXPIRED")), ("finish_by", ("failed", "DEADLINE"))):
                    name = hand.put(f"{place} {column} {edge}", place=place, at={column: edge} | by, **{column: edge})
                    if edge in LONG_AGO:
                        expired[name] = end
                    elif place == "ready":
                        due.append(name)
                    elif place == "delayed":
                        waiting.append(name)
            for column in ("claimed_at", "heartbeat_at", "started_at", "run_at", "cancel_at"):
                leases.append(hand.put(f"lease {column} {edge}", place="running", at={column: edge}))
            leases.append(hand.put(f"lease till {edge}", place="running", at={"finish_by": edge, "start_by": edge}))
            hand.put(
                f"over {edge}",
                place="outcome",
                at={
                    "finished_at": edge,
                    "claimed_at": edge,
                    "last_beat_at": edge,
                    "started_at": edge,
                    "state": "failed",
                },
            )
            hand.put(f"gone {edge}", place="outcome", at={"finished_at": edge, "purge_at": "-infinity"})
            id_ = hand.job(f"history {edge}")
            hand.place("outcome", id_, purge_at=NEVER[n % 2])
            hand.insert("attempt", id=id_, run_count=0, claimed_at=edge, ended_at=edge, how="retry", spent=True)
            hand.insert("audit", id=id_, at=edge, actor="nobody", action="cancel")
            hand.insert("worker", token=900 + n, tasks='{"gone.task": 1}', started_at=edge, heartbeat_at=edge)
            hand.insert("queue", name=f"paused {edge}", paused=True, paused_at=edge)
        hand.put("unknown", "gone.task")
        good += before_and_after(hand)

    worker, children = work(scene)

    scene.wait_state("succeeded", *due)
    assert ends(scene, *expired) == expired
    eventually(lambda: scene.running() == 0, within=30)
    eventually(lambda: scene.value("SELECT count(*) FROM fencepost.job WHERE job_id LIKE 'gone%'") == 0, within=30)
    eventually(lambda: scene.job("unknown")["parked_for"] == "unknown")
    assert_at_rest(scene, worker, children, good)
    assert {scene.state(job_id) for job_id in waiting} == {"queued"}
    assert quarantined(scene) == {}
    assert scene.rows("SELECT * FROM fencepost.fsck") == []
    for job_id in leases:
        assert scene.state(job_id) in ("succeeded", "failed", "cancelled"), job_id
    assert_readable(scene)
    assert readable(scene, "delayed infinity")["run_at"] == "9999-12-30T00:00:00Z"
    assert readable(scene, "ready -infinity")["run_at"] == "0001-01-03T00:00:00Z"


@pytest.mark.spec("C12", "A1")
def test_what_is_read_of_such_times_and_durations_on_each_server(each_version: Database) -> None:
    """TMZ-1: before 17 a difference of infinite times is an error, later it is infinite; both would spoil the answer."""
    scene = Scene(each_version)
    with by_hand(scene) as hand:
        for n, edge in enumerate((*EDGES, "now")):
            for place in ("ready", "delayed", "parked"):
                hand.put(f"{place} {edge}", place=place, at={"run_at": edge, "start_by": edge}, created_at=edge)
            seconds = DURATIONS[n]
            hand.put(f"running {edge}", place="running", at={"claimed_at": edge, "ttl_s": seconds, "cancel_at": edge})
            hand.put(f"outcome {edge}", place="outcome", at={"finished_at": edge, "purge_at": edge, "claimed_at": edge})
            hand.insert("worker", token=900 + n, started_at=edge, heartbeat_at=edge)
            hand.insert("queue", name=edge, paused=True, paused_at=edge)
        hand.insert(
            "leader", name="leader", token=900, taken_at="-infinity", renewed_at="infinity", expires_at="infinity"
        )

    try:
        assert_readable(scene)
    finally:
        scene.close()


# ------------------------------------------------------------------------------------------------------------ durations


@pytest.mark.spec("C12", "C10", "L4")
def test_durations_at_the_edges_of_their_type(scene: Scene) -> None:
    """RTR-6, STK-3: ttl, retention and window, in leases, jobs and tasks. A lease without end is kept, and seen."""
    with by_hand(scene) as hand:
        good = before_and_after(hand)
        kept: list[str] = []
        lost: list[str] = []
        gone: list[str] = []  # as soon as the pruner comes
        fine: list[str] = []
        for n, seconds in enumerate(DURATIONS):
            (kept if seconds > 1 or seconds != seconds else lost).append(
                hand.put(f"lease {n}", place="running", at={"ttl_s": seconds, "max_gap_s": "infinity"})
            )
            spent = {"attempts": 5, "ttl_s": 1.0, "keep_ok_s": seconds, "keep_bad_s": seconds}
            over = lost if seconds > 1 or seconds != seconds else gone
            over.append(hand.put(f"kept for {n}", "raises", place="running", at=spent))
            over.append(hand.put(f"cancelled for {n}", place="running", at=spent | {"cancel_at": "now"}))
            fine.append(hand.put(f"window {n}", dedup_s=seconds))
            fine.append(hand.put(f"over {n}", place="outcome", dedup_s=seconds))
            if seconds > 0 or seconds != seconds:
                hand.insert(
                    "task", name=f"gone {n}", ttl_s=seconds, keep_ok_s=seconds, keep_bad_s=seconds, dedup_s=seconds
                )
                hand.put(f"too late {n}", f"gone {n}", at={"finish_by": "yesterday"})
                over.append(f"too late {n}")
                hand.put(f"in doubt {n}", f"gone {n}", place="outcome", at={"state": "in_doubt", "purge_at": None})
        good += before_and_after(hand)

    worker, children = work(scene)

    ends(scene, *lost, *fine)
    assert_at_rest(scene, worker, children, good)
    assert set(scene.rows("SELECT state FROM fencepost.jobs WHERE job_id = ANY (%s)", kept)) == {("running",)}
    assert scene.running() == len(kept)
    left = scene.rows("SELECT state FROM fencepost.jobs WHERE job_id = ANY (%s)", gone)
    assert set(left) <= {("failed",), ("cancelled",)}
    assert set(scene.rows("SELECT state FROM fencepost.jobs WHERE job_id = ANY (%s)", fine)) == {("succeeded",)}
    assert_readable(scene)
    with by_hand(scene) as hand:
        for n, seconds in enumerate(DURATIONS):
            scene.put("noop", key=f"over {n}")  # a look at its window, whatever it is
            if seconds > 0 or seconds != seconds:
                hand.conn.execute("SELECT fencepost.retention_v1(%s, 100)", [f"gone {n}"])
                hand.conn.execute("SELECT fencepost.resolve_v1(%s, 'failed', 'nobody')", [f"in doubt {n}"])
    ends(scene, *fine)
    assert quarantined(scene) == {}
    assert scene.rows("SELECT * FROM fencepost.fsck") == []


@pytest.mark.spec("C12", "C3", "W6")
def test_leases_of_the_living_that_somebody_has_changed(scene: Scene) -> None:
    """STK-3, HBT-1: their beats, their outcomes and those of their neighbours go on."""
    scene.put("sleep", key="good neighbour", seconds=4)
    names = [f"changed {n}" for n in range(6)]
    for name in names:
        scene.put("sleep", key=name, seconds=1.5)
    worker = scene.worker(slots=8, leader=False)  # which would come for those that look old, before their next beat
    children = worker.wait_children()
    for name in [*names, "good neighbour"]:
        scene.wait("begin", name)
    changes = [
        "keep_ok_s = 'NaN', keep_bad_s = 1e308",
        "attempts = -32768, crashes = 32767, snoozes = 32767",
        "claimed_at = '-infinity', heartbeat_at = NULL, started_at = 'infinity'",
        "claimed_at = 'infinity', run_at = '-infinity'",
        "ttl_s = 'NaN', max_attempts = -32768, max_crashes = -32768",
        "bytes = -2147483648, fair_key = repeat('x', 1000000), ckey = repeat('y', 1000000)",
    ]
    with by_hand(scene) as hand:
        for name, change in zip(names, changes, strict=True):
            hand.conn.execute(
                f"UPDATE fencepost.running r SET {change} FROM fencepost.job j"  # noqa: S608 - words of ours
                " WHERE j.id = r.id AND j.job_id = %s",
                [name],
            )
    assert_readable(scene, names)

    scene.wait_state("succeeded", *names)
    assert_at_rest(scene, worker, children, ["good neighbour", *names])


# ---------------------------------------------------------------------------------------------------------------- texts

ODD = "\x01\x07\x1b[31mred\x1b[0m\x7f\x9b2J \u202eevil\u2066 \u0645\u0631\u062d\u0628\u0627 \r\n\t\u2028 \U0001f4a9 e\u0301\ufeff"
WIDE = "".join(chr(0x4E00 + n) for n in range(3000))
REPEATED = "long " * 20_000
HUGE = "x\u202ey " * 200_000


@pytest.mark.spec("C12", "R8", "L4")
def test_texts_that_nobody_would_write(scene: Scene) -> None:
    """PSN-9, PSN-10, UNQ-6: in each column; they paint no terminal and stop neither move nor retention."""
    with by_hand(scene) as hand:
        good = before_and_after(hand)
        fine = [
            hand.put(ODD),
            hand.put(f"{REPEATED}{ODD}"),
            hand.put("tags", tags=[ODD, REPEATED, None, ""], meta='{"a": 1e5000}'),
            hand.put("tags in tags", "thread", tags=[["a", "b"], ["c", "d"]]),
            hand.put("meta", "process", meta=f'["{HUGE}"]', tags=[]),
            hand.put("keys", unique_key=ODD, ckey=ODD, tenant=HUGE, at={"ckey": ODD, "fair_key": ODD}),
            hand.put("wide", ckey=WIDE, tenant=WIDE, at={"ckey": WIDE[:800], "fair_key": WIDE[:700]}),
        ]
        strange = [hand.put("odd task", ODD), hand.put("huge task", HUGE)]
        elsewhere = [
            hand.put("odd queue", queue=ODD, at={"queue": ODD}),
            hand.put("other queue", queue=WIDE, at={"queue": WIDE[:800]}),
        ]
        for n, (code, error) in enumerate([(ODD, ""), (HUGE, HUGE), (WIDE, ODD)]):
            id_ = hand.job(f"over {n}", task=error)
            hand.place(
                "outcome", id_, state="failed", error_code=code, error=error, stats='{"a": 1e5000}', result="1e5000"
            )
            hand.insert(
                "attempt", id=id_, run_count=0, ended_at="now", how="retry", spent=True, error_code=code, error=error
            )
            hand.insert("carry", id=id_, error_code=code, error=error, checkpoint="1e5000", progress='{"a": 1e5000}')
            hand.insert("audit", id=id_, actor=ODD, action=HUGE, reason=HUGE, was=ODD, target=HUGE)
            hand.place(
                "outcome", hand.job(f"gone {n}", task=error), state="failed", error_code=code, purge_at="yesterday"
            )
        hand.insert("worker", token=901, host=ODD, queues="[1, null]", tasks='{"a": 1e5000}')
        hand.insert("worker", token=902, host=HUGE, queues=f'{{"{REPEATED}": "x"}}', tasks='"text"')
        hand.insert("queue", name=REPEATED)
        for table in ("ready", "delayed", "parked"):
            for wide in ({"queue": WIDE}, {"fair_key": WIDE}, {"ckey": WIDE}):
                with pytest.raises(psycopg.errors.CheckViolation):
                    hand.place(table, 1_000_000, **wide)
        good += before_and_after(hand)

    assert_readable(scene, [])
    worker, children = work(scene)

    scene.wait_state("succeeded", *fine)
    eventually(lambda: {scene.job(job_id)["parked_for"] for job_id in strange} == {"unknown"})
    eventually(lambda: scene.value("SELECT count(*) FROM fencepost.job WHERE job_id LIKE 'gone%'") == 0, within=30)
    assert_at_rest(scene, worker, children, good)
    assert {scene.state(job_id) for job_id in elsewhere} == {"queued"}
    assert_readable(scene)
    assert quarantined(scene) == {}
    assert scene.value("SELECT sum(n) FROM fencepost.daily") == 3


# --------------------------------------------------------------------------------------------------------------- places


@pytest.mark.spec("C12", "L1")
def test_rows_in_no_place_in_two_and_of_nobody(scene: Scene) -> None:
    """DBL-8, UNQ-1: what a partial restore leaves. Each is seen by the check, and those that can move go aside."""
    with by_hand(scene) as hand:
        good = before_and_after(hand)
        nobody = range(900_000, 900_004)
        for id_, place in zip(nobody, ("ready", "delayed", "parked", "running"), strict=True):
            hand.place(place, id_)
        hand.place("outcome", 900_004, purge_at="yesterday")
        hand.insert("held", scope="noop", key="of nobody", id=900_005)
        hand.insert("carry", id=900_006, error="of nobody")
        hand.insert("attempt", id=900_007, run_count=1, ended_at="now", how="retry", spent=True)
        hand.insert("slot_due", ckey="of nobody")
        hand.insert("gate", ckey="free", lim=MOST, used=-MOST - 1)
        hand.insert("gate", ckey="full", lim=0, used=MOST)
        hand.job("nowhere")
        twice: list[str] = []
        for one, other in (
            ("ready", "delayed"),
            ("ready", "parked"),
            ("ready", "running"),
            ("ready", "outcome"),
            ("delayed", "running"),
            ("delayed", "parked"),
            ("delayed", "outcome"),
            ("running", "outcome"),
            ("running", "parked"),
        ):
            twice.append(hand.put(f"{one} and {other}", place=one))
            by = {"keyed": True} if other != "outcome" else {}
            hand.place(other, scene.job(twice[-1])["id"], **by)
        everywhere = hand.job("everywhere")
        for place in ("ready", "delayed", "parked", "running", "outcome"):
            hand.place(place, everywhere)
        for n in range(3):
            hand.put("good and free" if n == 0 else f"good and free {n}", ckey="free", at={"ckey": "free"})
        good += ["good and free", "good and free 1", "good and free 2"]
        hand.put("full", ckey="full", at={"ckey": "full"})
        good += before_and_after(hand)

    assert_readable(scene, [])
    worker, children = work(scene)

    eventually(lambda: scene.running() == 0, within=30)
    assert_at_rest(scene, worker, children, good)
    for job_id in twice:
        assert len(scene.all("begin", job_id)) <= 2, job_id
    aside = quarantined(scene)
    assert {900_000, 900_001, 900_003} <= set(aside), aside
    assert scene.job("nowhere")["state"] == "queued"
    wrong = dict(scene.rows("SELECT id, detail FROM fencepost.fsck WHERE what = 'places'"))
    assert wrong[scene.job("nowhere")["id"]] == "none"
    assert_readable(scene)
    status = strict(fencepost("status", "--json", env={"FENCEPOST_DSN": scene.database.dsn}))["status"]
    assert status["quarantine"] == scene.value("SELECT count(*) FROM fencepost.quarantine")
    assert status["fsck"] > 0


# ---------------------------------------------------------------------------------------------------------------- order


@pytest.mark.spec("C1", "C12")
def test_a_rescued_job_of_high_priority_is_the_next_claim(scene: Scene) -> None:
    """PRI-1: before all that came before it and all that comes after it, with what nobody can run in between."""
    with by_hand(scene) as hand:
        low = [hand.put(f"good low {n}", at={"priority": -1}) for n in range(50)]
        hand.put("high", place="running", at={"priority": 10, "ttl_s": 0.001}, priority=10)
        bad = [hand.put(f"bad {n}", payload="[]", at={"priority": 20}, priority=20) for n in range(5)]
        hand.conn.execute("SELECT fencepost.rescue_v1(10)")

    worker, children = work(scene, slots=1)

    scene.wait_state("succeeded", "high", *low)
    assert [event["job"] for event in scene.all("begin")][0] == "high"
    assert set(ends(scene, *bad).values()) == {("failed", "PAYLOAD_INVALID")}
    assert_at_rest(scene, worker, children, low)


@pytest.mark.spec("Q3")
def test_one_job_id_for_two_tasks(scene: Scene) -> None:
    """UNQ-7: a job_id names one job of the whole database: the second task is told that it is another's, never served."""
    with by_hand(scene) as hand:
        hand.put("shared", "noop")
        first = hand.conn.execute("SELECT id FROM fencepost.job WHERE job_id = 'shared'").fetchone()
        enqueued = hand.conn.execute(
            "SELECT id, answer, differs FROM fencepost.enqueue_v1(ARRAY['shared', 'good other'],"
            " ARRAY['other', 'other'], ARRAY['{}', '{}'])"
        ).fetchall()
        with pytest.raises(psycopg.errors.UniqueViolation):
            hand.put("shared", "other")

    assert first is not None
    assert [(answer, differs) for _, answer, differs in enqueued] == [("exists", True), ("created", False)]
    assert enqueued[0][0] == first[0]
    assert (scene.job("shared")["task"], scene.job("good other")["task"]) == ("noop", "other")
