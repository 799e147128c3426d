"""using(...): each option is checked before anything is sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from fencepost.errors import UsageError
from tasks.declaring import Bench

SOON = datetime(2030, 1, 1, tzinfo=UTC)


def work(x: int) -> int:
    return x


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.spec("Q6")
def test_options_become_fields_of_the_job(bench: Bench) -> None:
    task = bench.task("work")(work)
    berlin = timezone(timedelta(hours=2))

    task.using(
        job_id="w:1",
        run_at=datetime(2030, 1, 1, 2, tzinfo=berlin),
        priority=5,
        queue="q",
        unique_key="k",
        concurrency_key="c",
        tenant="t",
        start_by=SOON + timedelta(hours=1),
        finish_by=SOON + timedelta(hours=2),
        max_attempts=2,
        dedup_window="1h",
        tags=["a", "b", "a"],
        meta={"by": "web"},
    ).enqueue(1)

    (job,) = bench.sent
    assert (job.job_id, job.run_at, job.priority, job.queue) == ("w:1", SOON, 5, "q")
    assert (job.unique_key, job.concurrency_key, job.tenant) == ("k", "c", "t")
    assert (job.max_attempts, job.dedup_s, job.tags, dict(job.meta)) == (2, 3600, ("a", "b"), {"by": "web"})


def test_none_is_the_default_and_later_options_win(bench: Bench) -> None:
    task = bench.task("work")(work)

    job = task.using(priority=1, queue="a", delay="90s").using(queue="b", priority=None).new(1)

    assert (job.priority, job.queue, job.delay_s) == (0, "b", 90)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"run_at": datetime(2030, 1, 1)}, "run_at has no time zone"),  # noqa: DTZ001
        ({"start_by": datetime(2030, 1, 1)}, "start_by has no time zone"),  # noqa: DTZ001
        ({"finish_by": datetime(2030, 1, 1)}, "finish_by has no time zone"),  # noqa: DTZ001
        ({"run_at": "tomorrow"}, "run_at must be a datetime"),
        ({"run_at": datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=9)))}, "run_at must lie between"),
        ({"run_at": datetime(1, 1, 1, tzinfo=UTC)}, "run_at must lie between"),
        ({"delay": -1}, "delay must be"),
        ({"delay": timedelta(seconds=-1)}, "delay must be"),
        ({"delay": float("nan")}, "delay must be"),
        ({"delay": float("inf")}, "delay must be"),
        ({"delay": timedelta.max}, "delay must be between 0 and ten years"),
        ({"delay": "soon"}, "delay must be"),
        ({"delay": 1, "run_at": SOON}, "run_at or delay, not both"),
        ({"start_by": SOON, "finish_by": SOON}, "finish_by must be later than start_by"),
        ({"priority": "high"}, "priority must be a whole number"),
        ({"priority": True}, "priority must be a whole number"),
        ({"priority": 2**40}, "priority must be between"),
        ({"max_attempts": 0}, "max_attempts must be between"),
        ({"max_attempts": 1.5}, "max_attempts must be a whole number"),
        ({"dedup_window": -1}, "dedup_window must be"),
        ({"job_id": ""}, "job_id must not be empty"),
        ({"job_id": 7}, "job_id must be text"),
        ({"job_id": "a\x00b"}, "job_id holds a character"),
        ({"job_id": "\ud800"}, "job_id holds a character"),
        ({"job_id": "x" * 5000}, "job_id has 5000 characters"),
        ({"unique_key": "a\nb"}, "unique_key holds a character"),
        ({"concurrency_key": "\ud800"}, "concurrency_key holds a character"),
        ({"tenant": ""}, "tenant must not be empty"),
        ({"queue": "a\x00"}, "queue holds a character"),
        ({"tags": "abc"}, "tags must be a list"),
        ({"tags": [1]}, "tags: each tag must be text"),
        ({"tags": [str(n) for n in range(1000)]}, "tags holds more than"),
        ({"meta": [1]}, "meta must be a mapping"),
        ({"meta": {1: 2}}, "meta must be a mapping with text keys"),
        ({"meta": {"a": "\x00"}}, "meta"),
        ({"meta": {"a": float("nan")}}, "meta"),
        ({"meta": {"a": object()}}, "meta"),
        ({"meta": {"a": "x" * 100_000}}, "meta"),
        ({"dealy": 1}, "no option 'dealy'; did you mean 'delay'"),
    ],
)
def test_an_option_that_can_never_work_is_refused_by_name(bench: Bench, options: Any, said: str) -> None:
    task = bench.task("work")(work)

    with pytest.raises(UsageError, match=f"^work.*{said}"):
        task.using(**options).enqueue(1)

    assert bench.sent == []


def test_new_sends_nothing_and_takes_no_transaction(bench: Bench) -> None:
    task = bench.task("work")(work)

    with pytest.raises(UsageError, match="takes no tx"):
        task.using(tx=object()).new(1)  # type: ignore[arg-type]

    assert task.new(1).payload == '{"x":1}' or task.new(1).payload == '{"x": 1}'
    assert bench.sent == []
