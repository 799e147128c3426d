"""The clients: a process with a few threads that enqueue at a steady rate and note every call and every answer.

``python -m fencepost.testing.torture.load FOLDER``; FENCEPOST_DSN names its door. It goes on until its stdin ends, then
asks again whatever had no answer, with the same job_ids, and ends with 0 when all are answered.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from fencepost import config
from fencepost.domain.job import Enqueued, NewJob
from fencepost.errors import FencepostError, OutageError
from fencepost.store.connect import open_connection
from fencepost.testing.torture.notes import Notes
from fencepost.testing.torture.settings import Settings

_TICK_S = 0.1
_DEADLINE_S = 8.0
_KEYS = 12
CLIENTS = 4
_LEAVE_S = 60.0


@dataclass(frozen=True, slots=True)
class Order:
    """One job as it is asked for, again and again if need be."""

    job_id: str
    task: str
    key: str | None
    make: Callable[..., NewJob]
    arguments: dict[str, Any]

    def item(self) -> NewJob:
        """As enqueue_many takes it."""
        return self.make(**self.arguments)


class Load:
    """One client: asks, notes, and asks again. One that waits on a dead connection for its deadline holds up no other."""

    def __init__(self, folder: Path, dsn: str, number: int) -> None:
        from fencepost import App
        from fencepost.testing.torture import app as bodies

        self._number = number
        self._settings = Settings.read(folder)
        self._bodies = bodies
        self._dsn = dsn
        self._app = App(dsn, name="torture load", schema=bodies.app.catalog.schema)
        self._notes = Notes(folder / f"enqueue-{os.getpid()}-{number}.jsonl")
        self._dice = random.Random(f"{self._settings.seed}/{number}")  # noqa: S311 - a seed that can be named again
        self._done: deque[Order] = deque(maxlen=500)
        self._again: deque[list[Order]] = deque()
        self._op = self._made = 0

    def run(self, stop: threading.Event) -> int:
        """Until ``stop``, then until all is answered; 1 if that takes too long."""
        behind, last, rate = 0.0, time.monotonic(), self._settings.rate / CLIENTS
        while not stop.wait(_TICK_S):
            now = time.monotonic()
            behind = min(behind + (now - last) * rate, 4 * rate)  # no flood afterwards
            last = now
            while behind >= 1 and not stop.is_set():
                behind -= self._one_call(int(behind))
        ends = time.monotonic() + _LEAVE_S
        while self._again and time.monotonic() < ends:
            self._ask(self._again.popleft())
        self._app.close()
        return 1 if self._again else 0

    def _one_call(self, most: int) -> int:
        if self._again:
            self._ask(self._again.popleft())
        chance = self._dice.random()
        if chance < 0.08 and self._done:
            self._ask(self._dice.sample(list(self._done), min(3, len(self._done))))
            return 0
        orders = [self._order() for _ in range(self._dice.randint(1, min(12, most)))]
        if chance < 0.14:
            self._roll_back(orders)
            return 0
        if chance < 0.35:
            self._in_own_transaction(orders)
        else:
            self._ask(orders)
        return len(orders)

    def _order(self) -> Order:
        settings, dice, bodies = self._settings, self._dice, self._bodies
        self._made += 1
        job_id = f"t{settings.seed}-{self._number}-{self._made}"
        key = f"key-{dice.randrange(_KEYS)}" if dice.random() < 0.06 else None
        chance = dice.random()
        if chance < settings.slow_share:
            seconds = round(dice.uniform(settings.slow_least, settings.slow_most), 2)
            arguments = {"seconds": seconds, "early": dice.random() < 0.5}
            return Order(job_id, "slow", key, bodies.slow.using(job_id=job_id, unique_key=key).new, arguments)
        if chance < settings.slow_share + settings.thread_share:
            arguments = {"seconds": round(dice.uniform(0.05, 0.6), 2)}
            return Order(job_id, "threaded", key, bodies.threaded.using(job_id=job_id, unique_key=key).new, arguments)
        if chance < settings.slow_share + settings.thread_share + settings.process_share:
            arguments = {"seconds": round(dice.uniform(0.05, 0.4), 2)}
            return Order(job_id, "apart", key, bodies.apart.using(job_id=job_id, unique_key=key).new, arguments)
        return Order(job_id, "quick", key, bodies.quick.using(job_id=job_id, unique_key=key).new, {})

    def _asked(self, orders: list[Order]) -> int:
        self._op += 1
        jobs = [{"job_id": one.job_id, "key": one.key, "task": one.task} for one in orders]
        self._notes.add(ev="asked", op=self._op, jobs=jobs)
        return self._op

    def _answered(self, op: int, orders: list[Order], told: list[Enqueued]) -> None:
        answers = [
            {
                "job_id": order.job_id,
                "answer": str(one.status),
                "id": None if one.holder else one.id,
                "holder": one.holder,
                "unsure": one.unsure,
            }
            for order, one in zip(orders, told, strict=True)
        ]
        self._notes.add(ev="answered", op=op, answers=answers)
        self._done.extend(order for order, one in zip(orders, told, strict=True) if one.is_new)

    def _ask(self, orders: list[Order]) -> None:
        """By the app's own connection, in a transaction of the library's."""
        op = self._asked(orders)
        try:
            told = self._app.enqueue_many([one.item() for one in orders])
        except OutageError as error:
            self._notes.add(ev="unknown", op=op, why=str(error)[:300])
            self._again.append(orders)
        else:
            self._answered(op, orders, told)

    def _in_own_transaction(self, orders: list[Order]) -> None:
        op = self._asked(orders)
        told: list[Enqueued] = []
        committing = False
        try:
            with self._connection() as conn:
                told = self._app.enqueue_many([one.item() for one in orders], tx=conn)
                committing = True
                conn.commit()
        except (psycopg.OperationalError, FencepostError) as error:
            self._notes.add(ev="unknown" if committing else "refused", op=op, why=str(error)[:300])
            self._again.append(orders)
        else:
            self._answered(op, orders, told)

    def _roll_back(self, orders: list[Order]) -> None:
        """These job_ids are never used again: they must not exist."""
        op = self._asked(orders)
        try:
            with self._connection() as conn:
                self._app.enqueue_many([one.item() for one in orders], tx=conn)
                conn.rollback()
        except (psycopg.OperationalError, FencepostError):
            pass  # nothing was committed, however it ended
        self._notes.add(ev="rolled_back", op=op)

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        conn = open_connection(self._dsn, name="torture load", deadline_s=_DEADLINE_S)
        try:
            conn.execute("BEGIN")
            yield conn
        finally:
            conn.close()


def main(folder: Path) -> int:
    """Run until stdin ends; 0 if every client got all its answers."""
    os.environ["FENCEPOST_TORTURE"] = str(folder)
    dsn = config.from_env().dsn or ""
    stop = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=listen, name="stdin", daemon=True).start()
    with ThreadPoolExecutor(CLIENTS) as pool:
        ends = [pool.submit(Load(folder, dsn, number).run, stop) for number in range(CLIENTS)]
        for end in as_completed(ends):
            if end.exception() is not None:
                stop.set()
    return max(end.result() for end in ends)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
