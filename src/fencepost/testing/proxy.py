"""A TCP proxy between a client and its server that makes the trouble of networks: silence, resets, half-open sockets.

hold / release   nothing passes, nothing is lost and nobody is told: packets are dropped and sent again. New connections
                 are accepted (by the kernel of a host that is there) and not answered either
cut              each connection is reset, as by a firewall that forgot it
half_open        the server's ends are closed; the clients' ends stay open and silent for ever: a proxy that died badly
refuse / accept  new connections are reset at once, or let in again
lose_answers     of the next calls the server gets the request, and the client a reset instead of the answer: what was
                 committed is committed, and whoever asked does not know
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fencepost.errors import FencepostError

_ACCEPTING_TURNS = 5
"""So many turns of the loop has what it has accepted last, with nothing new: a server that closes earlier forgets it."""


class _Pair:
    """One client's connection and ours to the server."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client, self.server = client, server
        self.deaf = self.asked = False


class Proxy:
    """Serves until `close`. ``dsn`` is what clients use; ``target`` may be changed: later connections go there."""

    def __init__(self, dsn: str) -> None:
        self.target = dsn
        self._pairs: set[_Pair] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._refusing = False
        self._losing = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="proxy", daemon=True)
        self._thread.start()
        if not self._ready.wait(10):
            raise FencepostError("the fault proxy did not start within 10 s")
        asked = conninfo_to_dict(dsn)
        self.dsn = make_conninfo(
            "", host="127.0.0.1", port=self.port, user=asked["user"], dbname=asked["dbname"], sslmode="disable"
        )

    def close(self) -> None:
        """End all connections and the thread."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def connections(self) -> int:
        """How many go through now."""
        return len(self._pairs)

    def hold(self) -> None:
        """Let nothing pass from now on; nothing is lost."""
        self._do(self._open.clear)

    def release(self) -> None:
        """Let it all pass."""
        self._do(self._open.set)

    def refuse(self) -> None:
        """Reset new connections at once."""
        self._refusing = True

    def accept(self) -> None:
        """Let new connections in again."""
        self._refusing = False

    def cut(self) -> int:
        """How many connections there were."""

        def act() -> int:
            for pair in self._pairs:
                _reset(pair.client)
                _reset(pair.server)
            return len(self._pairs)

        return self._do(act)

    def half_open(self, most: int | None = None) -> int:
        """Close the server's ends of all connections, or of ``most``, and leave the clients' ends open and silent.

        How many they were.
        """

        def act() -> int:
            pairs = list(self._pairs)[:most]
            for pair in pairs:
                pair.deaf = True
                _reset(pair.server)
            return len(pairs)

        return self._do(act)

    def lose_answers(self, count: int) -> None:
        """Of the next ``count`` calls on connections that are open now; one for each connection."""

        def act() -> None:
            self._losing = count
            for pair in self._pairs:
                pair.asked = False

        self._do(act)

    def keep_answers(self) -> None:
        """Lose no more."""
        self._losing = 0

    def _do(self, act: Callable[[], int | None]) -> int:
        done: list[int] = []
        event = threading.Event()

        def run() -> None:
            done.append(act() or 0)
            event.set()

        self._loop.call_soon_threadsafe(run)
        if not event.wait(10):
            raise FencepostError("the fault proxy does not answer")
        return done[0]

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        self._stop, self._open = asyncio.Event(), asyncio.Event()
        self._open.set()
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        for listening in server.sockets:
            self._loop.remove_reader(listening.fileno())
        for _ in range(_ACCEPTING_TURNS):
            await asyncio.sleep(0)
        server.close()
        for pair in self._pairs:
            _reset(pair.server)
        for client in self._clients:
            _reset(client)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the transports close their sockets

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # the end of the proxy
            self._clients.add(writer)
            try:
                await self._serve_one(reader, writer)
            finally:
                self._clients.discard(writer)
                _reset(writer)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        if self._refusing:
            _reset(writer)
            return
        asked = conninfo_to_dict(self.target)
        host, port = str(asked["host"]), int(asked.get("port") or 5432)
        try:
            if host.startswith("/"):
                back, forth = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
            else:
                back, forth = await asyncio.open_connection(host, port)
        except OSError:
            _reset(writer)
            return
        pair = _Pair(writer, forth)
        self._pairs.add(pair)
        ways = [
            asyncio.create_task(self._pass(pair, reader, forth)),
            asyncio.create_task(self._pass(pair, back, writer, answers=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if pair.deaf:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)  # one reader at a time
                with contextlib.suppress(OSError):
                    while await reader.read(65536):
                        pass  # taken and thrown away: the client's kernel gets its acknowledgements
        finally:
            for way in ways:
                way.cancel()
            self._pairs.discard(pair)
            writer.close()
            forth.close()

    async def _pass(
        self, pair: _Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool = False
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._open.wait()
                if pair.deaf:
                    return
                if answers and self._losing and pair.asked:
                    self._losing -= 1
                    _reset(pair.client)
                    _reset(pair.server)
                    return
                if not answers and self._losing:
                    pair.asked = True
                writer.write(data)
                await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN, where the kind of socket knows it."""
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@contextlib.contextmanager
def proxy(dsn: str) -> Iterator[Proxy]:
    """A proxy for the time of a with block."""
    made = Proxy(dsn)
    try:
        yield made
    finally:
        made.close()
