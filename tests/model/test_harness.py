"""Whether the machine's own parts can say no: the judge of P2 to P6, and the clock of the test build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from model.promises import Promises
from model.storage import install
from model.things import Fence
from servers import Server

FENCE = Fence(1, 1, 7)


def row(state: str, run_count: int = 1, worker: int | None = 7, job_id: str = "a") -> dict[str, Any]:
    return {"state": state, "run_count": run_count, "worker": worker, "job_id": job_id, "task": "t", "unique_key": "K"}


def shows(*rows: dict[str, Any], runs: tuple[list[Any], ...] = ()) -> dict[str, Any]:
    return {
        "jobs": {str(n + 1): row for n, row in enumerate(rows)},
        "runs": {str(n): run for n, run in enumerate(runs)},
        "workers": {},
    }


def running() -> Promises:
    made = Promises()
    made.queued(1)
    made.claimed(1, 1)
    made.look(shows(row("running")))
    return made


def ends_twice(p: Promises) -> None:
    p.accepted(FENCE, "succeeded")
    p.accepted(FENCE, "succeeded")


def is_given_out_too_often(p: Promises) -> None:
    p.claimed(1, 2)


WRONG: list[Callable[[Promises], None]] = [
    ends_twice,
    is_given_out_too_often,
    lambda p: p.accepted(FENCE._replace(token=8), "succeeded"),
    lambda p: p.accepted(FENCE._replace(run_count=2), "succeeded"),
    lambda p: p.claimed(1, 1),
    lambda p: p.look(shows(row("running"), row("in_doubt", job_id="b"))),
    lambda p: p.look(shows(row("succeeded"), row("queued"))),
    lambda p: p.look(shows(row("succeeded")), by_the_stale=True),
    lambda p: p.look(shows(row("running"), runs=(["stale", 0],)), by_the_stale=True),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_broken_promise_is_seen(wrong: Callable[[Promises], None]) -> None:
    promises = running()

    with pytest.raises(AssertionError, match=r"P[23456]"):
        wrong(promises)


def test_a_good_history_is_let_pass() -> None:
    promises = running()

    promises.accepted(FENCE, "queued")
    promises.look(shows(row("queued", worker=None), row("succeeded", job_id="b"), runs=(["retry", 0],)))
    promises.claimed(1, 2)
    promises.look(
        shows(row("queued", worker=None), row("succeeded", job_id="b"), runs=(["retry", 1],)), by_the_stale=True
    )

    assert promises.are_stale([FENCE])


def test_the_test_build_reads_no_clock_but_its_own(server: Server) -> None:
    dsn = install(server)

    with psycopg.connect(dsn) as conn:
        found = conn.execute(
            "with said (name, text) as ("
            "select proname::text, prosrc from pg_proc where pronamespace = 'fencepost'::regnamespace "
            "union all select viewname, definition from pg_views where schemaname = 'fencepost' "
            "union all select adrelid::regclass::text, pg_get_expr(adbin, adrelid) from pg_attrdef) "
            "select name, text ~ '(clock|statement|transaction)_timestamp|current_timestamp|\\mnow\\(', text ~ 'model_now' "
            "from said where name <> 'fencepost.migration'"
        ).fetchall()

    assert [name for name, foreign, _ in found if foreign] == []
    assert sum(own for *_, own in found) >= 25
