"""A transaction pooler in a thread, as small as can be: it greets clients itself, and lends server connections between
transactions, last in, first out. What PgBouncer does in transaction mode, for tests without PgBouncer.

``server_connections`` are opened once; a client gets one for each transaction (until "ready, idle"), so that session
state, prepared statements and session locks leak or vanish exactly as they do behind a real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import threading
from collections.abc import Iterator

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102


class Pooler:
    """Serves until `close`. ``dsn`` is what clients use."""

    def __init__(self, dsn: str, *, server_connections: int = 1) -> None:
        self._target = conninfo_to_dict(dsn)
        self._size = server_connections
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._parameters: list[bytes] = []
        self._writers: list[asyncio.StreamWriter] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)
        self.dsn = make_conninfo(
            "",
            host="127.0.0.1",
            port=self.port,
            user=self._target["user"],
            dbname=self._target["dbname"],
            sslmode="disable",
        )

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        self._change = asyncio.Condition()
        for _ in range(self._size):
            self._free.append(await self._log_in())
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _log_in(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = str(self._target.get("host") or "localhost"), self._target.get("port") or 5432
        if host.startswith("/"):
            reader, writer = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            reader, writer = await asyncio.open_connection(host, int(port))
        self._writers.append(writer)
        words = f"user\0{self._target['user']}\0database\0{self._target['dbname']}\0\0".encode()
        writer.write(struct.pack("!ii", len(words) + 8, 196608) + words)
        self._parameters = []
        while True:
            kind, body = await _message(reader)
            assert kind != b"E", body
            assert kind != b"R" or body[:4] == b"\0\0\0\0", "the tests' server must trust"
            if kind == b"S":
                self._parameters.append(body)
            if kind == b"Z":
                return reader, writer

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            if await self._greet(reader, writer):
                said: asyncio.Queue[tuple[bytes, bytes]] = asyncio.Queue()
                listen = asyncio.create_task(_listen(reader, said))
                while (message := await said.get())[0] != b"X":
                    await self._transaction(message, said, writer)
                await listen
        writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        while True:
            (length,) = struct.unpack("!i", await reader.readexactly(4))
            body = await reader.readexactly(length - 4)
            (code,) = struct.unpack("!i", body[:4])
            if code in (_SSL, _GSS):
                writer.write(b"N")
                continue
            if code == _CANCEL:
                return False
            break
        writer.write(_framed(b"R", b"\0\0\0\0"))
        for parameter in self._parameters:
            writer.write(_framed(b"S", parameter))
        writer.write(_framed(b"K", struct.pack("!ii", random.randrange(1 << 22, 1 << 30), 7)) + _framed(b"Z", b"I"))
        return True

    async def _transaction(
        self, first: tuple[bytes, bytes], said: asyncio.Queue[tuple[bytes, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        async with self._change:
            await self._change.wait_for(lambda: self._free)
            server = self._free.pop()
        answers = asyncio.create_task(self._answers(server[0], writer))
        server[1].write(_framed(*first))
        try:
            while not answers.done():
                more = asyncio.create_task(said.get())
                await asyncio.wait({answers, more}, return_when=asyncio.FIRST_COMPLETED)
                if not more.done():
                    more.cancel()  # nothing of the client's is under way: it waits for "ready" before it goes on
                    await asyncio.wait({more})
                elif more.result()[0] == b"X":
                    server[1].write(_framed(b"Q", b"rollback\0"))  # the client went away in its transaction
                else:
                    server[1].write(_framed(*more.result()))
        finally:
            await answers
            async with self._change:
                self._free.append(server)
                self._change.notify_all()

    async def _answers(self, server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            kind, body = await _message(server)
            writer.write(_framed(kind, body))
            if kind == b"Z" and body == b"I":
                return


async def _listen(reader: asyncio.StreamReader, said: asyncio.Queue[tuple[bytes, bytes]]) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            said.put_nowait(await _message(reader))
    said.put_nowait((b"X", b""))


def _framed(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    (length,) = struct.unpack("!i", head[1:])
    return head[:1], await reader.readexactly(length - 4)


@contextlib.contextmanager
def pooler(dsn: str, *, server_connections: int = 1) -> Iterator[Pooler]:
    made = Pooler(dsn, server_connections=server_connections)
    try:
        yield made
    finally:
        made.close()
