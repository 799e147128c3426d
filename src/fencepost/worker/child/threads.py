"""Plain handlers: threads of each queue's own, so that one queue's hung work starves no other. Never through the loop."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable

from fencepost.worker.child.attempt import Attempts, Ended
from fencepost.worker.child.held import Held


class ThreadBodies:
    """Threads for one queue, started when they are first needed, daemonic: a stuck one does not hold the exit."""

    def __init__(
        self,
        name: str,
        size: int,
        attempts: Attempts,
        finished: Callable[[Held, Ended], None],
        begin: Callable[[Held], bool],
    ) -> None:
        self._name, self._size = name, size
        self._attempts, self._finished, self._begin = attempts, finished, begin
        self._inbox: queue.SimpleQueue[Held | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._lock = threading.Lock()

    def submit(self, held: Held) -> None:
        """Run it as soon as a thread is free."""
        with self._lock:
            if not self._idle and len(self._threads) < self._size:
                name = f"fencepost-{self._name}-{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
            elif self._idle:
                self._idle -= 1
        self._inbox.put(held)

    def close(self) -> None:
        """Let idle threads end."""
        for _ in self._threads:
            self._inbox.put(None)

    def _work(self) -> None:
        while (held := self._inbox.get()) is not None:
            if self._begin(held):
                ended = contextvars.Context().run(self._attempts.run_sync, held)
                with self._lock:
                    self._idle += 1
                self._finished(held, ended)
            else:
                with self._lock:
                    self._idle += 1
