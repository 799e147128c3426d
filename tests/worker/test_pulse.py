"""One beat and the thread that beats: which leases are asked for, and what the answers mean (SPEC C3-C5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, cast

import psycopg
import pytest

from fencepost.sql.catalog import Catalog
from fencepost.store.flow import Flow, Rows, Stmt
from fencepost.store.wire import Wire
from fencepost.worker.board import SINCE, Board, boot_ns
from fencepost.worker.pulse import Answers, Pulse, beat_boards, needs_beat
from servers import Database
from waiting import eventually


class ScriptedWire:
    """Answers each statement by a function of it."""

    def __init__(self, answer: Callable[[Stmt], Rows]) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []
        self.closed = 0

    def run(self, flow: Flow[Any]) -> Any:
        try:
            stmt = next(flow)
            while True:
                self.asked.append(dict(cast("Any", stmt.params)))
                stmt = flow.send(self.answer(stmt))
        except StopIteration as end:
            return end.value

    def close(self) -> None:
        self.closed += 1


def told(params: object, name: str) -> list[int]:
    """A column of numbers, as PostgreSQL reads it."""
    value: object = cast("Any", params)[name]
    return list(map(int, value.strip("{}").split(","))) if isinstance(value, str) else list(cast("Any", value))


def all_ok(stmt: Stmt) -> Rows:
    return [(id_, "ok") for id_ in told(stmt.params, "id")]


def beat(wire: ScriptedWire, boards: dict[int, Board]) -> dict[int, Answers]:
    return beat_boards(cast("Wire", wire), Catalog(), boards)


def board_with(*ids: int, beat_ms: int = 1000, age_s: float = 60.0) -> Board:
    board = Board(None, 0, 16)
    for id_ in ids:
        at = board.publish(id_, 1, beat_ms)
        board.words[at + SINCE] = boot_ns() - int(age_s * 1e9)
        board.start(at)
    return board


@pytest.mark.spec("C5")
def test_one_statement_for_all_processes() -> None:
    wire = ScriptedWire(all_ok)

    answers = beat(wire, {7: board_with(1, 2), 8: board_with(3), 9: board_with()})

    (asked,) = wire.asked
    assert [told(asked, name) for name in ("id", "token", "workers")] == [[1, 2, 3], [7, 7, 8], [7, 8, 9]]
    assert {token: said.ok for token, said in answers.items()} == {7: ((1, 1), (2, 1)), 8: ((3, 1),), 9: ()}


@pytest.mark.spec("C4")
@pytest.mark.parametrize(("beat_ms", "age_s", "wanted"), [(0, 60, False), (1000, 0.4, False), (1000, 0.6, True)])
def test_plain_and_young_leases_need_no_beat(beat_ms: int, age_s: float, wanted: bool) -> None:
    (entry,) = board_with(1, beat_ms=beat_ms, age_s=age_s).snapshot()

    assert needs_beat(entry, boot_ns()) is wanted


@pytest.mark.spec("C3")
def test_gone_because_it_finished_is_not_lost() -> None:
    """A15 (g): between the look and the answer its outcome was committed."""
    board = board_with(1, 2)

    def finished_meanwhile(stmt: Stmt) -> Rows:
        (first, _) = board.snapshot()
        board.clear(first.at)
        return [(1, "lost"), (2, "lost")]

    answers = beat(ScriptedWire(finished_meanwhile), {7: board})

    assert answers[7].lost == ((2, 1),)


@pytest.mark.spec("C3")
def test_a_place_that_was_taken_by_another_run_meanwhile_is_not_lost_either() -> None:
    board = board_with(1)

    def claimed_anew(stmt: Stmt) -> Rows:
        (first,) = board.snapshot()
        board.clear(first.at)
        board.publish(1, 2, 1000)
        return [(1, "lost")]

    answers = beat(ScriptedWire(claimed_anew), {7: board})

    assert answers[7].lost == ()


@pytest.mark.spec("W5")
def test_only_what_was_renewed_counts_as_renewed() -> None:
    wire = ScriptedWire(lambda _: [(1, "ok"), (2, "busy"), (3, "cancel"), (4, "lost")])
    before = boot_ns()

    said = beat(wire, {7: board_with(1, 2, 3, 4)})[7]

    assert said.renewed == ((1, 1), (3, 1))
    assert (said.cancel, said.lost) == (((3, 1),), ((4, 1),))
    assert before <= said.sent_ns <= boot_ns()


@pytest.mark.spec("W5")
def test_a_lease_counts_from_the_sending_of_the_beat() -> None:
    """The answer may come late: by then the lease has run for as long."""
    answered: list[int] = []

    def late(stmt: Stmt) -> Rows:
        answered.append(boot_ns())
        return all_ok(stmt)

    said = beat(ScriptedWire(late), {7: board_with(1)})[7]

    assert said.renewed == ((1, 1),)
    assert said.sent_ns <= answered[0]


def test_a_zombie_and_its_successor_get_their_own_answers() -> None:
    """The same id on two boards: asked for in two statements, since answers come by id."""
    wire = ScriptedWire(lambda stmt: [(1, "lost" if told(stmt.params, "token") == [7] else "ok")])

    answers = beat(wire, {7: board_with(1), 8: board_with(1)})

    assert len(wire.asked) == 2
    assert answers[7].lost == ((1, 1),)
    assert answers[8].ok == ((1, 1),)


@pytest.mark.spec("C3", "C5")
def test_two_runs_of_one_job_on_one_board_get_their_own_answers() -> None:
    """The process whose lease was taken has claimed the job again."""
    board = board_with(1)
    at = board.publish(1, 2, 1000)
    board.words[at + SINCE] = boot_ns() - int(60e9)
    wire = ScriptedWire(lambda stmt: [(1, "lost" if told(stmt.params, "run_count") == [1] else "ok")])

    answers = beat(wire, {7: board})

    assert len(wire.asked) == 2
    assert (answers[7].ok, answers[7].lost) == (((1, 2),), ((1, 1),))


@pytest.fixture
def pulse_of() -> Iterator[Callable[..., Pulse]]:
    with ExitStack() as stack:

        def make(wire: object, board: Board, heard: list[Answers], **more: Any) -> Pulse:
            pulse = Pulse(
                cast("Wire", wire), Catalog(), board=board, token=7, interval=0.05, on_answers=heard.append, **more
            )
            pulse.start()
            stack.callback(pulse.join, 5)
            stack.callback(pulse.halt)
            return pulse

        yield make


@pytest.mark.spec("W4")
def test_a_pulse_outlives_every_error_and_says_so_once(
    pulse_of: Callable[..., Pulse], caplog: pytest.LogCaptureFixture
) -> None:
    fails = 3

    def sometimes(stmt: Stmt) -> Rows:
        nonlocal fails
        fails -= 1
        if fails >= 0:
            raise psycopg.OperationalError("gone")
        return all_ok(stmt)

    heard: list[Answers] = []
    wire = ScriptedWire(sometimes)

    with caplog.at_level("INFO", logger="fencepost.worker"):
        pulse_of(wire, board_with(1), heard)
        eventually(lambda: len(heard) >= 2)

    assert heard[-1].ok == ((1, 1),)
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "a beat failed",
        "beats reach the database again",
    ]


def test_a_pulse_reports_what_no_retry_can_mend_and_goes_on(pulse_of: Callable[..., Pulse]) -> None:
    def gone(_: Stmt) -> Rows:
        raise psycopg.errors.UndefinedFunction("no heartbeat_v1")

    troubles: list[Exception] = []

    pulse = pulse_of(ScriptedWire(gone), board_with(1), [], on_trouble=troubles.append)

    eventually(lambda: len(troubles) >= 2)
    assert pulse.is_alive()


def test_a_halted_pulse_closes_its_connection(pulse_of: Callable[..., Pulse], database: Database) -> None:
    heard: list[Answers] = []
    wire = Wire(database.dsn, deadline=5, name="pulse test")
    pulse = pulse_of(wire, board_with(), heard)
    eventually(lambda: heard)

    pulse.halt()
    pulse.join(5)

    assert not pulse.is_alive()
    assert not wire.connected
