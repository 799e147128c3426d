"""Procrastinate: its psycopg connector, async tasks."""

import contextlib

import procrastinate

CHUNK = 1_000


def _app(place, size, hit=None):
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=place["dsn"], min_size=1, max_size=size))

    @app.task(name="bench", queue="bench")
    async def bench(**arguments):
        hit(arguments)

    return app, bench


async def install(place):
    """Its schema."""
    app, _ = _app(place, 2)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


class Sender:
    """Enqueues."""

    def __init__(self, task):
        self._task = task

    async def one(self, arguments):
        """One job, one transaction."""
        await self._task.defer_async(**arguments)

    async def many(self, jobs):
        """One call."""
        await self._task.batch_defer_async(*jobs)


@contextlib.asynccontextmanager
async def sender(place):
    """On a pool of its own."""
    app, bench = _app(place, 2)
    async with app.open_async():
        yield Sender(bench)


async def work(place, hit):
    """Until it is stopped."""
    settings = dict(place["settings"])
    app, _ = _app(place, settings.pop("pool"), hit)
    async with app.open_async():
        await app.run_worker_async(install_signal_handlers=False, **settings)
