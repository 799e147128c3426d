"""Whether a body may begin: the last word before user code runs (SPEC W3, C6)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fencepost import App
from fencepost.domain.outcome import Done, Outcome, Released
from fencepost.worker.board import Board, boot_ns
from fencepost.worker.child.attempt import Attempts
from fencepost.worker.child.held import Held
from fencepost.worker.child.room import Room
from tasks.runs import CLAIMED
from waiting import eventually


class Life:
    """A room with one slot for thread bodies, without a database: what began there and what was to be written."""

    def __init__(self) -> None:
        self.app = App(name="room")
        self.began: list[int] = []
        self.settled: list[tuple[int, Outcome]] = []
        self.go_on = threading.Event()

        @self.app.task("body")
        def body(waits: bool = False) -> None:
            if waits:
                self.go_on.wait(30)

        self.board = Board(None, 0, 16)
        attempts = Attempts(self.app.middleware, self.app.classifier, self.app.redactor.text)
        self.room = Room(
            {"q": 1},
            self.board,
            attempts,
            None,
            settle=lambda held, outcome, _: self.settled.append((held.fence.id, outcome)),
            started=lambda held: self.began.append(held.fence.id),
            wanted=lambda: None,
        )

    def claimed(self, id_: int, payload: str = "{}") -> Held:
        job = replace(CLAIMED, id=id_, run_count=1, queue="q", task="body", payload=payload)
        at = self.board.publish(job.id, job.run_count, 1000)
        return Held(job, 5, at, boot_ns(), self.app.registry.get("body"))


@pytest.fixture
def life() -> Iterator[Life]:
    made = Life()
    yield made
    made.go_on.set()
    made.room.close()


@pytest.mark.spec("C6", "C3")
def test_what_the_supervisor_took_back_does_not_begin_and_what_came_later_does(life: Life) -> None:
    early = life.claimed(1)
    life.board.recall()
    late = life.claimed(2)

    life.room.add([early, late])

    eventually(lambda: len(life.settled) == 2)
    assert life.began == [2]
    outcomes = dict(life.settled)
    assert isinstance(outcomes[1], Released)
    assert isinstance(outcomes[2], Done)


@pytest.mark.spec("W3")
def test_what_waits_for_a_slot_when_the_worker_stops_does_not_begin(life: Life) -> None:
    life.room.add([life.claimed(1, '{"waits": true}'), life.claimed(2)])
    eventually(lambda: life.began == [1])

    back = life.room.stop()
    life.go_on.set()

    assert [held.fence.id for held in back] == [2]
    eventually(lambda: [id_ for id_, _ in life.settled] == [1])
    assert life.began == [1]
