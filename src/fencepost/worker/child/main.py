"""The entry of a worker process under a supervisor: ``python -m fencepost.worker.child BOARD CONTROL CONFIG HELLO``."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import select
import signal
import sys
import threading
import time
import traceback
from typing import Any

from fencepost import logs
from fencepost.domain.redact import Redactor
from fencepost.domain.storable import type_name
from fencepost.errors import FencepostError, OutageError
from fencepost.store import faults, schema
from fencepost.store.connect import open_connection
from fencepost.store.wire import Wire
from fencepost.worker import words
from fencepost.worker.board import Board, Phase, boot_ns
from fencepost.worker.child import copies
from fencepost.worker.child.application import load
from fencepost.worker.child.runtime import Runtime
from fencepost.worker.pulse import Pulse
from fencepost.worker.settings import MARGIN, WorkerSettings

log = logging.getLogger("fencepost.worker")

_PING_MS = 250
_SWITCH_S = 0.001
_USUAL_GC = gc.get_threshold()
_CONNECT_TRIES_S = 30.0
_CLEAN_UP_S = 0.5
"""So long what bodies left behind may take to end, at the very end."""


class ChildProcess:
    """Loop thread: handlers. Clerk thread: the database. This module's ping thread: life, words, the orphan's pulse."""

    def __init__(self, board: Board, control: int, config: dict[str, Any]) -> None:
        self._board, self._control = board, control
        self._settings = WorkerSettings.from_json(json.dumps(config["settings"]))
        self._config = config
        self._runtime: Runtime | None = None
        self._reader = words.Reader()
        self._ended = False
        self._pulse: Pulse | None = None
        self._early: list[words.Word] = []

    def prepare(self) -> Runtime:
        """Import the app and look at the database. Raises what the hello must tell."""
        app = load(self._config["app"])
        app.redactor.learn(*self._config["logs"].get("secrets", ()))  # a password of --dsn is none of the app's own
        if self._config["schema"]:
            from fencepost.sql.catalog import Catalog

            app.catalog = Catalog(self._config["schema"])
        dsn = self._config["dsn"] or app.dsn
        _verify(dsn, app.catalog, self._settings)
        return Runtime(app, self._settings, dsn=dsn, board=self._board, app_path=self._config["app"], supervised=True)

    def ping(self) -> None:
        """Sign of life and control pipe in one thread: no user code can own it, only the GIL can."""
        poll = select.poll()
        wait_ms = min(_PING_MS, int(self._settings.heartbeat_ttl * 1000 * (1 - MARGIN) / 2))
        poll.register(self._control, select.POLLIN)
        while not self._ended:
            self._board.ping()
            before = boot_ns()
            if not poll.poll(wait_ms):
                self._heard(before)
                continue
            data = os.read(self._control, 65536)
            if not data:
                poll.unregister(self._control)
                self._on_orphan()
                continue
            for word in self._reader.feed(data):
                self._hear(word)
            self._heard(before)

    def _heard(self, until_ns: int) -> None:
        """Everything said before that moment has been heard; local deadlines are judged by it."""
        if self._runtime is not None and self._pulse is None:
            self._runtime.heard_ns = until_ns

    def _hear(self, word: words.Word) -> None:
        runtime = self._runtime
        if runtime is None:
            self._early.append(word)
            return
        try:
            _obey(runtime, word)
        except Exception:  # the ping thread must go on
            log.exception("a word of the supervisor could not be followed")

    def _on_orphan(self) -> None:
        """The supervisor is dead: beat for ourselves and drain within the lease."""
        log.warning("the supervisor is gone: this process finishes what it can and ends")
        runtime = self._runtime
        if runtime is None:
            os._exit(1)
        wire = Wire(runtime.dsn, deadline=self._settings.call_deadline, name="orphan")
        self._pulse = Pulse(
            wire,
            runtime.app.catalog,
            board=self._board,
            token=runtime.token,
            interval=self._settings.heartbeat_interval,
            on_answers=runtime.on_answers,
        )
        runtime.heard_ns = 0
        self._pulse.start()
        grace = min(self._settings.shutdown_timeout, self._settings.heartbeat_ttl * MARGIN)
        runtime.drain(grace=grace)
        threading.Thread(target=self._orphan_ends, args=(grace,), daemon=True).start()

    def _orphan_ends(self, grace: float) -> None:
        runtime = self._runtime
        assert runtime is not None
        if not runtime.wait_over(grace + 2.0):
            log.warning("a body did not end; its lease is left to the ttl")
            _leave(1)

    async def run(self, runtime: Runtime) -> int:
        """Until drained; the exit code."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        runtime.on_over = lambda: loop.call_soon_threadsafe(over.set)
        for number in copies.hear():
            loop.add_signal_handler(number, runtime.drain)
        runtime.start(loop)
        self._runtime = runtime
        for word in self._early:
            self._hear(word)
        await over.wait()
        self._ended = True
        if runtime.error is not None:
            return runtime.error.exit_code
        return 0


def _obey(runtime: Runtime, word: words.Word) -> None:
    match word:
        case words.Drain(now=now):
            runtime.drain(now=now)
        case words.Quiet():
            runtime.quiet()
        case words.Show():
            _show(runtime)
        case words.GiveUp():
            runtime.give_up()
        case words.Trouble():
            runtime.on_trouble()
        case words.Beaten(sent_ns=sent, runs=runs):
            runtime.on_beat(sent, runs)
        case words.CancelJobs(runs=runs):
            runtime.on_cancel(runs)
        case words.LostJobs(runs=runs):
            runtime.on_lost(runs)


def _show(runtime: Runtime) -> None:
    for held in runtime.room.everything():
        log.info(
            "holds job %s (%s), run %d, told %s", held.claimed.job_id, held.claimed.task, held.fence.run_count, held.why
        )
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 - the only way to see every thread
        log.info("thread %d:\n%s", ident, "".join(traceback.format_stack(frame)))


def _verify(dsn: str, catalog: Any, settings: WorkerSettings) -> None:
    """The schema must fit. An outage at the start is waited out; everything else ends the start."""
    ends = time.monotonic() + _CONNECT_TRIES_S
    told = False
    while True:
        try:
            with open_connection(dsn, name="start", deadline_s=max(2.0, settings.call_deadline)) as conn:
                schema.verify(conn, catalog)
                return
        except Exception as error:
            if not faults.is_transient(error) or time.monotonic() > ends:
                raise faults.translate(error) from error
            if not told:
                told = True
                log.warning("the database is away (%s): trying for %.0f s", faults.explain(error), _CONNECT_TRIES_S)
            time.sleep(0.5)


def _leave(code: int) -> None:
    if (
        threading.current_thread() is threading.main_thread()
    ):  # an orphan leaves from another, which may not set handlers
        for number in copies.ENDINGS:
            signal.signal(number, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112 - a closed pipe changes nothing
            continue
    os._exit(code)


def main() -> None:
    """The entry. Leaves without finalisation: a stuck thread must not hold the exit."""
    board_fd, control, config_fd, hello = map(int, sys.argv[1:5])
    copies.give_usual_signals()
    with os.fdopen(config_fd, "rb") as file:
        config = json.load(file)
    wanted = config["logs"]
    redactor = Redactor(secrets=wanted.get("secrets", ()))  # an app that cannot be imported has none for us
    logs.configure(json=bool(wanted.get("json")), level=wanted.get("level", "INFO"), redactor=redactor)
    board = Board(board_fd, config["number"], config["entries"])
    board.enter(Phase.STARTING)
    child = ChildProcess(board, control, config)
    threading.Thread(target=child.ping, name="fencepost-ping", daemon=True).start()
    try:
        runtime = child.prepare()
    except FencepostError as error:
        _say_hello(hello, {"ok": False, "message": str(error), "exit_code": error.exit_code})
        _leave(error.exit_code)
    except BaseException as error:
        log.exception("the app could not be imported")
        message = f"the app {config['app']!r} could not be imported: {type(error).__name__}: {error}"
        message = redactor.text(message)[:500]
        _say_hello(hello, {"ok": False, "message": message, "exit_code": 2})
        _leave(2)
    logs.configure(json=bool(wanted.get("json")), level=wanted.get("level", "INFO"), redactor=runtime.app.redactor)
    _say_hello(
        hello,
        {"ok": True, "dsn": runtime.dsn, "schema": runtime.app.catalog.schema, "tasks": len(runtime.app.registry)},
    )
    sys.setswitchinterval(_SWITCH_S)
    _collect_less()
    _leave(_serve(child, runtime))


def _collect_less() -> None:
    """Every run makes objects that live for a moment and tie few knots: looking for them was a tenth of its cost.

    What is there by now, such as the app's modules, is not looked through again. An app that has set thresholds of its own
    keeps them.
    """
    gc.freeze()
    if gc.get_threshold() == _USUAL_GC:
        gc.set_threshold(10_000, 20, 20)


def _serve(child: ChildProcess, runtime: Runtime) -> int:
    """Run the loop until the child is over; its exit code.

    Not `asyncio.run`: that waits for the threads of ``asyncio.to_thread`` however long they take, and ends, with all
    bodies, when a task that some body has started raises SystemExit.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    over = loop.create_task(child.run(runtime))
    while not over.done():
        try:
            loop.run_until_complete(over)
        except (SystemExit, KeyboardInterrupt) as error:
            if over.done():
                break
            log.warning("something that a body had started raised %s: it ends, nothing else does", type_name(error))
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            loop.run_until_complete(asyncio.wait(left, timeout=_CLEAN_UP_S))
    return over.result()


def _say_hello(fd: int, answer: dict[str, Any]) -> None:
    try:
        os.write(fd, json.dumps(answer).encode() + b"\n")
        os.close(fd)
    except OSError:
        log.debug("nobody hears the hello")


__all__ = ["OutageError", "main"]
