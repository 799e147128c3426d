"""Oban for Python: async workers on one queue."""

import asyncio
import contextlib

from oban import Oban
from oban import worker as job_of
from oban._config import Config
from oban.schema import install as create

CHUNK = 10_000
_HIT = []


@job_of(queue="bench")
class Bench:
    """Does nothing."""

    async def process(self, job):
        """Says that it began."""
        _HIT[0](job.args)


async def install(place):
    """Its tables."""
    pool = await Config(dsn=place["dsn"], pool_min_size=1, pool_max_size=2).create_pool()
    await create(pool)
    await pool.close()


class Sender:
    """Enqueues."""

    def __init__(self, oban):
        self._oban = oban

    async def one(self, arguments):
        """One job, one transaction."""
        await self._oban.enqueue(Bench.new(arguments))

    async def many(self, jobs):
        """One call."""
        await self._oban.enqueue_many(*[Bench.new(job) for job in jobs])


@contextlib.asynccontextmanager
async def sender(place):
    """On a pool of its own, without queues and out of any election."""
    pool = await Config(dsn=place["dsn"], pool_min_size=1, pool_max_size=2).create_pool()
    oban = Oban(pool=pool, leadership=False)
    await oban.start()
    try:
        yield Sender(oban)
    finally:
        await oban.stop()
        await pool.close()


async def work(place, hit):
    """Until it is stopped."""
    settings = dict(place["settings"])
    _HIT.append(hit)
    limit = settings.pop("limit")
    pool = await Config(dsn=place["dsn"], **settings).create_pool()
    await Oban(pool=pool, queues={"bench": limit}).start()
    await asyncio.Event().wait()
