"""The beat: one statement that keeps the leases of everything on one or more boards (SPEC C5).

`beat_boards` is one beat. The supervisor's clerk calls it for all its children; `Pulse` is the thread that calls it for
one process: an embedded worker, or a child whose supervisor died. Code that holds the GIL starves `Pulse` and not the
supervisor.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fencepost.domain.job import Fence
from fencepost.sql.catalog import Catalog
from fencepost.store import faults, jobs
from fencepost.store.wire import Wire
from fencepost.worker.board import Board, Entry, EntryState, RunKey, boot_ns

log = logging.getLogger("fencepost.worker")

_GLANCE_S = 0.25


@dataclass(frozen=True, slots=True)
class Answers:
    """What one beat said about the runs of one process.

    ``sent_ns``: the moment just before it was sent, from which the local deadlines of ``ok`` run. ``cancel``: renewed,
    and asked to end. ``lost``: on the board still, yet not ours any more. Runs in none of them (locked by somebody, or
    too young for a beat) were not renewed.
    """

    sent_ns: int
    ok: tuple[RunKey, ...] = ()
    cancel: tuple[RunKey, ...] = ()
    lost: tuple[RunKey, ...] = ()

    @property
    def renewed(self) -> tuple[RunKey, ...]:
        """The runs whose leases now run from ``sent_ns``."""
        return self.ok + self.cancel


def needs_beat(entry: Entry, now_ns: int) -> bool:
    """Whether its lease wants beats (a plain one never does) and it is older than half its interval.

    So short jobs cost no beat, and the gap between claim and first beat stays under one and a half intervals.
    """
    return entry.beat_ms > 0 and now_ns - entry.since_ns >= entry.beat_ms * 500_000


def shortest_ms(boards: Iterable[Board], usual_ms: int) -> int:
    """The shortest beat interval that anything on these boards wants."""
    return min((entry.beat_ms for board in boards for entry in board.snapshot() if entry.beat_ms), default=usual_ms)


def beat_boards(wire: Wire, sql: Catalog, boards: Mapping[int, Board], alive: Iterable[int] = ()) -> dict[int, Answers]:
    """One beat for the processes with these tokens. ``alive``: further tokens whose worker rows are to be kept.

    Ids come from the boards, so a claim that nobody runs is not kept alive. Raises what `Wire.run` raises; then nothing
    is known to be renewed.
    """
    now = boot_ns()
    shown = {
        Fence(entry.id, entry.run_count, token): entry
        for token, board in boards.items()
        for entry in board.snapshot()
        if needs_beat(entry, now)
    }
    sent = boot_ns()
    started = [entry.state is not EntryState.CLAIMED for entry in shown.values()]
    said = wire.run(jobs.beat(sql, list(shown), started=started, workers=[*boards, *alive]))
    by: dict[int, dict[str, list[RunKey]]] = {
        token: {"ok": [], "cancel": [], "busy": [], "lost": []} for token in boards
    }
    for fence, entry in shown.items():
        answer = said.get(fence, "busy")
        if answer != "lost" or _same_run(boards[fence.token], entry):  # gone because it finished is not lost
            by[fence.token][answer].append(entry.key)
    return {
        token: Answers(sent, ok=tuple(told["ok"]), cancel=tuple(told["cancel"]), lost=tuple(told["lost"]))
        for token, told in by.items()
    }


def _same_run(board: Board, entry: Entry) -> bool:
    """Whether the run is still shown, perhaps in another state."""
    now = board.read(entry.at)
    return now is not None and now.key == entry.key


class Pulse(threading.Thread):
    """Beats for one process until `halt`. Daemonic; after `halt`, join it from a thread, never from an event loop.

    Args:
        wire: a connection of its own; the pulse closes it at its end.
        board, token: what the process runs, and under which token.
        interval: seconds between beats, shorter while a lease on the board wants it.
        on_answers: called in this thread after each good beat.
        on_failed: called in this thread after each beat that failed: nobody would keep what is claimed now.
        on_trouble: called in this thread when a beat failed for good (schema gone, no rights); it goes on trying.

    A transient error is logged once per episode; the next beat comes a fifth of an interval later.
    """

    def __init__(
        self,
        wire: Wire,
        sql: Catalog,
        *,
        board: Board,
        token: int,
        interval: float,
        on_answers: Callable[[Answers], None],
        on_failed: Callable[[], None] | None = None,
        on_trouble: Callable[[Exception], None] | None = None,
    ) -> None:
        super().__init__(name="fencepost-pulse", daemon=True)
        self._wire, self._sql, self._board, self._token = wire, sql, board, token
        self._interval = interval
        self._on_answers, self._on_failed, self._on_trouble = on_answers, on_failed, on_trouble
        self._halt = threading.Event()
        self._wake = threading.Event()
        self._troubled = False

    def halt(self) -> None:
        """End after the beat that is under way. From any thread; twice is once."""
        self._halt.set()
        self._wake.set()

    def hurry(self) -> None:
        """Beat now (a local deadline is near). From any thread."""
        self._wake.set()

    def run(self) -> None:
        """Beat until the end. Nothing that a beat raises ends the thread."""
        while not self._halt.is_set():
            began = time.monotonic()
            good = self._beat()
            wanted = self._wanted_interval() if good else self._interval / 5
            self._wait_until(began + wanted)
        self._wire.close()

    def _wait_until(self, due: float) -> None:
        """Until the next beat is due; less if it is hurried, or if the writer asks for one after trouble (SPEC W4)."""
        last = boot_ns()
        while (left := due - time.monotonic()) > 0 and not self._wake.wait(min(left, _GLANCE_S)):
            if self._board.asked_ns > last:
                break
        self._wake.clear()

    def _wanted_interval(self) -> float:
        return min(self._interval, shortest_ms([self._board], int(self._interval * 1000)) / 1000)

    def _beat(self) -> bool:
        try:
            answers = beat_boards(self._wire, self._sql, {self._token: self._board})[self._token]
            self._on_answers(answers)
        except Exception as error:  # noqa: BLE001 - a pulse that ends loses every lease
            self._failed(error)
            return False
        if self._troubled:
            log.info("beats reach the database again")
        self._troubled = False
        return True

    def _failed(self, error: Exception) -> None:
        self._wire.close()
        if not self._troubled:
            log.warning("a beat failed: %s", faults.explain(error))
        self._troubled = True
        if self._on_failed is not None:
            self._on_failed()
        if self._on_trouble is not None and not faults.is_transient(error):
            self._on_trouble(error)
