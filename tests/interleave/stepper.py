"""Steps two or three sessions through their moves in a chosen order, on a real server.

A move is one call of a function of the schema. It is stepped as a whole; or up to a marked line inside the function and on
from there; or, for a caller with a transaction of its own, as begin, call, commit. A step that has to wait for another
session's lock is left waiting, and the order goes on with the others: what then happens is the server's choice, as it is
in life.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg

_LOOK_S = 0.001
_PATIENCE_S = 8.0


class Move(NamedTuple):
    """What a session does, and in how many steps: with ``stop`` two, with ``level`` (its own transaction) three."""

    name: str
    query: str
    stop: str | None = None
    level: str | None = None

    def steps(self) -> list[str]:
        if self.level is not None:
            return [f"begin isolation level {self.level}", self.query, "commit"]
        return [self.query] if self.stop is None else [self.query, ""]

    def __str__(self) -> str:
        return " ".join(filter(None, (self.name, self.stop and f"@{self.stop}", self.level)))


@dataclass
class Told:
    """What a session heard: the rows of its move, or the error that ended it."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    error: psycopg.Error | None = None


class Session:
    """One connection; steps its move."""

    def __init__(self, number: int, conn: psycopg.AsyncConnection[Any]) -> None:
        self.number, self.conn = number, conn
        self.pid = conn.info.backend_pid
        self.begin(Move("nothing", ""))

    def begin(self, move: Move) -> None:
        self.move, self.left = move, move.steps()
        self.told = Told()
        self.task: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        return self.task is not None and not self.task.done()

    def start(self, query: str) -> None:
        if self.told.error is not None:
            query = "rollback" if self.move.level is not None else ""
        if self.move.stop is not None and query:
            query = f"select set_config('fencepost.break', '{self.move.stop}', false); {query}"
        if query:
            self.task = asyncio.create_task(self._run(query))

    async def _run(self, query: str) -> None:
        try:
            cursor = await self.conn.execute(query.encode())
            while cursor.nextset():
                pass
            if cursor.description:
                self.told.rows += await cursor.fetchall()
        except psycopg.Error as error:
            self.told.error = error


class Stepper:
    """Sessions on one database that is set back before each order."""

    def __init__(self, sessions: list[Session], control: psycopg.AsyncConnection[Any]) -> None:
        self.sessions, self.control = sessions, control

    @classmethod
    async def open(cls, dsn: str, count: int) -> Stepper:
        sessions = []
        for number in range(count):
            conn = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
            await conn.execute(f"set fencepost.break_as = '{number}'".encode())
            sessions.append(Session(number, conn))
        return cls(sessions, await psycopg.AsyncConnection.connect(dsn, autocommit=True))

    async def close(self) -> None:
        for one in self.sessions:
            await one.conn.close()
        await self.control.close()

    async def play(self, moves: Sequence[Move], order: Sequence[int]) -> tuple[list[Told], tuple[str, ...]]:
        """Step the moves in this order. What each session heard, and the trace: which steps came to an end, and when."""
        players = self.sessions[: len(moves)]
        trace: list[str] = []
        for session, move in zip(players, moves, strict=True):
            session.begin(move)
            if move.stop is not None:
                await self.control.execute(_lock("pg_advisory_lock", session).encode())
        waiting: list[int] = []
        for number in order:
            if players[number].is_busy and not await self._stands_at_stop(players[number]):
                waiting.append(number)  # it waits for somebody: its next step comes when it can
                continue
            await self._step(players[number], trace)
        for number in itertools.chain(waiting, range(len(players))):
            await self._finish(players[number], trace)
        return [session.told for session in players], tuple(trace)

    async def _step(self, session: Session, trace: list[str]) -> None:
        query = session.left.pop(0)
        if query == "" and session.move.stop is not None:
            await self.control.execute(_lock("pg_advisory_unlock", session).encode())
        else:
            session.start(query)
        settled = await self._settles(session)
        trace.append(f"{session.number}{'.' if settled else '?'}")

    async def _settles(self, session: Session) -> bool:
        """Whether the step ends, at its end or at its stop; False: it waits for another session."""
        assert session.task is not None or not session.left or session.told.error is not None
        while session.is_busy:
            assert session.task is not None
            done, _ = await asyncio.wait({session.task}, timeout=_LOOK_S)
            if done:
                return True
            lock = await self._waits_for(session)
            if lock == "advisory":
                if session.left:
                    return True  # it stands at its stop
            elif lock is not None:
                return False
        return True

    async def _stands_at_stop(self, session: Session) -> bool:
        return bool(session.move.stop) and await self._waits_for(session) == "advisory"

    async def _waits_for(self, session: Session) -> str | None:
        cursor = await self.control.execute(
            b"select wait_event from pg_stat_activity where pid = %s and wait_event_type = 'Lock'", (session.pid,)
        )
        row = await cursor.fetchone()
        return row[0] if row else None

    async def _finish(self, session: Session, trace: list[str]) -> None:
        """Let it end; where it waits for another session, let that one go on."""
        ends = time.monotonic() + _PATIENCE_S
        while session.left or session.is_busy:
            assert time.monotonic() < ends, f"{session.move} does not end"
            if await self._can_step(session):
                await self._step(session, trace)
                continue
            assert session.task is not None
            done, _ = await asyncio.wait({session.task}, timeout=_LOOK_S)
            if done:
                trace.append(f"{session.number}!")
            elif await self._waits_for(session) is not None and not await self._can_step(session):
                for other in self.sessions:
                    if other is not session and await self._can_step(other):
                        await self._step(other, trace)
                        break

    async def _can_step(self, session: Session) -> bool:
        return bool(session.left) and (not session.is_busy or await self._stands_at_stop(session))


def _lock(act: str, session: Session) -> str:
    return f"select {act}(hashtext('{session.move.stop} {session.number}'))"


def orders(steps: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All orders of so many steps of each session."""
    if not any(steps):
        yield ()
        return
    for number, left in enumerate(steps):
        if left:
            rest = [count - (place == number) for place, count in enumerate(steps)]
            for order in orders(rest):
                yield (number, *order)
