"""Awa: its queue storage, async handlers."""

import asyncio
import contextlib
from dataclasses import asdict, dataclass

import awa

CHUNK = 10_000


@dataclass
class Bench:
    """The arguments of a job."""

    user_id: int
    email: str
    template: str
    locale: str
    n: int
    pad: str
    sent: float = 0.0


async def install(place):
    """Its tables; a new database goes over to queue storage when its first worker starts."""
    client = awa.AsyncClient(place["dsn"])
    await client.migrate()

    @client.task(Bench, queue="warm")
    async def bench(_job):
        pass

    await client.start([("warm", 1)])
    await asyncio.sleep(0.5)
    await client.shutdown()
    await client.close()


class Sender:
    """Enqueues."""

    def __init__(self, client):
        self._client = client

    async def one(self, arguments):
        """One job, one transaction."""
        await self._client.insert(Bench(**arguments), queue="bench")

    async def many(self, jobs):
        """One call."""
        await self._client.enqueue_many_copy([Bench(**job) for job in jobs], queue="bench")


@contextlib.asynccontextmanager
async def sender(place):
    """On a client of its own."""
    client = awa.AsyncClient(place["dsn"])
    try:
        yield Sender(client)
    finally:
        await client.close()


async def work(place, hit):
    """Until it is stopped."""
    settings = dict(place["settings"])
    workers = settings.pop("max_workers")
    client = awa.AsyncClient(place["dsn"], **settings)

    @client.task(Bench, queue="bench")
    async def bench(job):
        hit(asdict(job.args))

    await client.start([{"name": "bench", "max_workers": workers}])
    await asyncio.Event().wait()
