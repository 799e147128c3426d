"""Celery on Redis: results ignored, one child; jobs go one by one, for there is no bulk call."""

import contextlib
import os

from celery import Celery

CHUNK = 1_000


def _app(place, hit=None):
    app = Celery("bench", broker=place["dsn"])
    app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)

    @app.task(name="bench")
    def bench(arguments):
        hit(arguments)

    return app, bench


def install(_place):
    """Nothing: a broker has no tables."""


class Sender:
    """Enqueues."""

    def __init__(self, task, producer):
        self._task, self._producer = task, producer

    def one(self, arguments):
        """One message."""
        self._task.apply_async((arguments,), producer=self._producer)

    def many(self, jobs):
        """One message after the other."""
        for job in jobs:
            self.one(job)


@contextlib.asynccontextmanager
async def sender(place):
    """On one connection."""
    app, bench = _app(place)
    with app.producer_pool.acquire(block=True) as producer:
        producer.connection.ensure_connection()
        yield Sender(bench, producer)


def work(place, hit):
    """Until it is stopped."""
    settings = place["settings"]
    app, _ = _app(place, hit)
    app.conf.update(worker_prefetch_multiplier=settings["prefetch"])
    words = ["worker", "-l", "ERROR", "-c", "1", "-P", settings["pool"], "-n", f"bench{os.getpid()}@localhost"]
    if settings["quiet"]:
        app.conf.update(worker_send_task_events=False, worker_disable_rate_limits=True)
        words += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    app.worker_main(words)
