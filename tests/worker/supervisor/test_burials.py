"""When the jobs of a dead child may run elsewhere: not while anybody of its group lives (SPEC W11; review A15)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fencepost.worker.board import Board, Phase, allocate
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervisor import strays, watch
from fencepost.worker.supervisor.clerk import Order, Rescue
from fencepost.worker.supervisor.processes import Child, Launch
from fencepost.worker.supervisor.watch import Watch


class Dead(SimpleNamespace):
    """A child that has just died with one started job; its group empties at a word."""

    def __init__(self) -> None:
        board = Board(None, 0, 4)
        board.start(board.publish(7, 1, 1000))
        super().__init__(
            pid=1, number=0, token=5, mark="mark", board=board, overdue=set(), deliberate=False, phase=Phase.WORKING,
            died_at=time.monotonic(), process=SimpleNamespace(returncode=-9), empty=False, closed=False,
        )  # fmt: skip

    def is_group_empty(self) -> bool:
        return bool(self.empty)

    def describe(self) -> str:
        return "a dead one"

    def close(self) -> None:
        self.closed = True


class Grave:
    """A watch with one dead child, and what it ordered. ``strays``: so many of its descendants live elsewhere."""

    def __init__(self, fd: int) -> None:
        self.orders: list[Order] = []
        self.strays = 0
        self.dead = Dead()
        launch = Launch(app="none:app", settings=WorkerSettings.create(queues=["q"], slots=1))
        self.watch = Watch(launch, fd, on_ready=lambda _: None, order=self.orders.append)
        self.watch.was_ready = True
        self.watch._kill_at = time.monotonic() + 600  # nobody is to succeed it
        self.watch._dying.append(cast("Child", self.dead))

    def collect(self, *_: Any) -> int:
        return self.strays


@pytest.fixture
def grave(monkeypatch: pytest.MonkeyPatch) -> Iterator[Grave]:
    fd = allocate(1, 4)
    made = Grave(fd)
    monkeypatch.setattr(strays, "collect", made.collect)
    yield made
    os.close(fd)


@pytest.mark.spec("W11", "C3")
def test_nobody_is_rescued_before_the_group_is_empty(grave: Grave) -> None:
    for _ in range(3):
        grave.watch._bury()
        assert grave.orders == []

    grave.dead.empty = True
    grave.watch._bury()

    (order,) = grave.orders
    assert isinstance(order, Rescue)
    assert (order.token, order.started) == (5, (7,))
    assert grave.dead.closed


@pytest.mark.spec("W11", "C3")
def test_nor_while_a_stray_of_it_lives(grave: Grave) -> None:
    grave.dead.empty = True
    grave.strays = 1
    grave.watch._bury()
    assert grave.orders == []

    grave.strays = 0
    grave.watch._bury()

    assert len(grave.orders) == 1


@pytest.mark.spec("W11", "C6")
def test_what_cannot_be_killed_keeps_its_leases_until_the_ttl(grave: Grave, caplog: pytest.LogCaptureFixture) -> None:
    """A process in the kernel's hands: its body may still have an effect."""
    grave.dead.died_at -= watch._GROUP_S + 1

    grave.watch._bury()

    assert grave.orders == []
    assert grave.dead.closed
    assert "left to the ttl" in caplog.text
