"""The local HTTP provider: it registers records, honours an idempotency key, and misbehaves on purpose.

A program of its own (``python -m fencepost.demo.provider LOG``), so that its log is a witness that shares nothing with
the workers. It prints its port, then appends one JSON line to LOG for each physical request *before* it answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import Any

from aiohttp import web

from fencepost.demo.behaviour import Trouble, http_trouble

SLOW_S = 0.7
HANG_S = 30.0  # longer than any client waits: the answer of a recorded success is lost
SHORT_WAIT_S = 1
LONG_WAIT_S = 7  # beyond the pause that is waited out in the slot: the job gives its slot back


class Provider:
    """Registers a record once per idempotency key; a repeated key gets the first answer again."""

    def __init__(self, log_path: str) -> None:
        self._log = os.open(log_path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._first: set[str] = set()
        self._answers: dict[str, dict[str, Any]] = {}
        self._next_id = 1000

    async def register(self, request: web.Request) -> web.StreamResponse:
        """One physical request."""
        key = request.headers.get("Idempotency-Key", "")
        body = await request.json()
        if not key:
            return self._answer(400, key, body, "refused", {"error": "Idempotency-Key is missing"})
        if key in self._answers:
            return self._answer(200, key, body, "replayed", self._answers[key])
        trouble = http_trouble(key) if key not in self._first else Trouble.NONE
        self._first.add(key)
        if trouble is Trouble.UNAVAILABLE:
            return self._answer(503, key, body, "nothing", {"error": "try again"})
        if trouble in (Trouble.THROTTLED, Trouble.THROTTLED_LONG):
            wait = SHORT_WAIT_S if trouble is Trouble.THROTTLED else LONG_WAIT_S
            response = self._answer(429, key, body, "nothing", {"error": "slow down"})
            response.headers["Retry-After"] = str(wait)
            return response
        if trouble is Trouble.SLOW:
            await asyncio.sleep(SLOW_S)
            if key in self._answers:  # the caller asked again meanwhile: one record for one key, however they overlap
                return self._answer(200, key, body, "replayed", self._answers[key])
        self._next_id += 1
        self._answers[key] = {"registration": self._next_id, "record": body.get("record")}
        response = self._answer(201, key, body, "recorded", self._answers[key])
        if trouble is Trouble.LOST_ANSWER:  # it happened, but the caller will not hear of it
            await asyncio.sleep(HANG_S)
        return response

    def _answer(self, status: int, key: str, body: dict[str, Any], effect: str, answer: dict[str, Any]) -> web.Response:
        line = {"status": status, "key": key, "record": body.get("record"), "effect": effect}
        os.write(self._log, json.dumps(line).encode() + b"\n")
        return web.json_response(answer, status=status)


async def serve(log_path: str) -> None:
    """Serve on a free port of the loopback address until the starter goes away (its end of our stdin closes)."""
    app = web.Application()
    app.router.add_post("/registrations", Provider(log_path).register)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=512)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(sys.argv[1]))
