"""Work that can wait until the server is busy with the next call: one thread and one connection, and neither idles."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from fencepost.store.flow import Flow
from fencepost.store.wire import Wire

T = TypeVar("T")


class Meanwhile:
    """The calls of one wire, and what their answers mean for this process, which is put off. For one thread.

    What was put off is done in its order: while the next call is under way, or else when that is over, however it ended.
    Only `catch_up` and `ask` raise what it raises; a call under way is never broken off for it.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._work: deque[Callable[[], None]] = deque()
        self._stumbled: Exception | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is put off."""
        return not self._work

    def put_off(self, work: Callable[[], None]) -> None:
        """Do this a little later. It makes no calls of its own."""
        self._work.append(work)

    def ask(self, flow: Flow[T]) -> T:
        """Run a flow as `Wire.run` does."""
        if not self._wire.connected:
            self.catch_up()  # opening may take long
        try:
            return self._wire.run(flow, self._during)
        finally:
            self.catch_up()

    def catch_up(self) -> None:
        """Do now what is put off."""
        if self._stumbled is not None:
            error, self._stumbled = self._stumbled, None
            raise error
        while self._work:
            self._work.popleft()()

    def _during(self) -> None:
        try:
            self.catch_up()
        except Exception as error:  # noqa: BLE001 - raised when the call is over
            self._stumbled = error
