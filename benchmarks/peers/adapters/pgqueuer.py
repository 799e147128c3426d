"""PgQueuer: one asyncpg connection, its command for the tables and for its autovacuum preset."""

import asyncio
import contextlib
import json
import subprocess
import sys
from pathlib import Path

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

CHUNK = 10_000


def install(place):
    """Tables and preset."""
    command = Path(sys.executable).with_name("pgq")
    for what in ("install", "autovac"):
        subprocess.run([command, "--pg-dsn", place["dsn"], what], check=True, stdout=subprocess.DEVNULL, timeout=60)


class Sender:
    """Enqueues."""

    def __init__(self, queries):
        self._queries = queries

    async def one(self, arguments):
        """One job, one transaction."""
        await self._queries.enqueue("bench", json.dumps(arguments).encode())

    async def many(self, jobs):
        """One call."""
        payloads = [json.dumps(job).encode() for job in jobs]
        await self._queries.enqueue(["bench"] * len(jobs), payloads, [0] * len(jobs))


@contextlib.asynccontextmanager
async def sender(place):
    """On a connection of its own."""
    connection = await asyncpg.connect(place["dsn"])
    try:
        yield Sender(Queries(AsyncpgDriver(connection)))
    finally:
        await connection.close()


def work(place, hit):
    """Until it is stopped."""
    settings = dict(place["settings"])
    if settings.pop("uvloop", False):
        import uvloop

        return uvloop.run(_work(place, hit, settings))
    return asyncio.run(_work(place, hit, settings))


async def _work(place, hit, settings):
    queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(place["dsn"])))

    @queue.entrypoint("bench")
    async def bench(job):
        hit(json.loads(job.payload))

    await queue.run(**settings)
