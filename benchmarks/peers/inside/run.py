"""Inside a peer's own environment: one command of one adapter. Imports nothing of fencepost.

``run.py ADAPTER install | enqueue N | send N PER_S | work``; the place comes as JSON in PEERS_PLACE: ``dsn``,
``settings``, ``counts`` (the folder for what handlers say), ``arguments`` of a job. The last line is the answer.
"""

import asyncio
import importlib.util
import inspect
import json
import mmap
import os
import random
import struct
import sys
import time
from pathlib import Path

PLACE = json.loads(os.environ["PEERS_PLACE"])
WARM = 10


class Counter:
    """How many jobs began in this process, in a file that the driver reads, and how long each had waited."""

    def __init__(self):
        self._pid = 0

    def hit(self, arguments):
        """To be called first by every handler."""
        if self._pid != os.getpid():  # a child that was forked counts for itself
            self._open()
        if sent := arguments.get("sent"):
            self._waits.write(f"{time.monotonic() - sent}\n")
            self._waits.flush()
        self._hits += 1
        struct.pack_into("<Q", self._map, 0, self._hits)

    def _open(self):
        self._pid, self._hits = os.getpid(), 0
        path = Path(PLACE["counts"]) / f"{self._pid}.count"
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)
        self._waits = path.with_suffix(".waits").open("a")


def counted():
    """Jobs that began, in all processes."""
    return sum(struct.unpack("<Q", path.read_bytes())[0] for path in Path(PLACE["counts"]).glob("*.count"))


def arguments(n, sent=0.0):
    """Of one job."""
    return PLACE["arguments"] | {"n": n} | ({"sent": sent} if sent else {})


async def done(answer):
    """The answer of a function that may be sync or async."""
    return await answer if inspect.isawaitable(answer) else answer


async def enqueue(adapter, jobs):
    """So many jobs by the fastest call; seconds without connecting and without making the arguments."""
    made = [arguments(n) for n in range(jobs)]
    async with adapter.sender(PLACE) as sender:
        began = time.perf_counter()
        for first in range(0, jobs, adapter.CHUNK):
            await done(sender.many(made[first : first + adapter.CHUNK]))
        return {"seconds": time.perf_counter() - began}


async def send(adapter, jobs, per_s):
    """Single jobs with jitter, each carrying the moment before its call, once a few have come through."""
    async with adapter.sender(PLACE) as sender:
        for n in range(WARM):
            await done(sender.one(arguments(n)))
        until = time.monotonic() + 60
        while counted() < WARM:
            if time.monotonic() > until:
                raise TimeoutError(f"{counted()} of the first {WARM} jobs began within 60 s")
            await asyncio.sleep(0.05)
        for n in range(jobs):
            await done(sender.one(arguments(n, time.monotonic())))
            await asyncio.sleep(random.uniform(0.5, 1.5) / per_s)
    return {}


def main():
    """Do it, and say what came out."""
    path, command, *words = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("peer_adapter", path)
    adapter = importlib.util.module_from_spec(spec)
    sys.modules["peer_adapter"] = adapter
    spec.loader.exec_module(adapter)
    if command == "work":
        work = adapter.work(PLACE, Counter().hit)
        if inspect.isawaitable(work):
            asyncio.run(work)
        return
    if command == "install":
        answer = asyncio.run(done_of(adapter.install))
    elif command == "enqueue":
        answer = asyncio.run(enqueue(adapter, int(words[0])))
    else:
        answer = asyncio.run(send(adapter, int(words[0]), float(words[1])))
    print(json.dumps(answer or {}), flush=True)


async def done_of(function):
    """Call it inside of a loop, whether it is sync or async."""
    return await done(function(PLACE))


if __name__ == "__main__":
    main()
