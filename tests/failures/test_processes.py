"""Processes that fork, spawn, start programs, are signalled at any moment, and end: nobody is left, nothing is lost."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fencepost import App
from processtable import is_alive, is_zombie
from waiting import always, eventually, pause
from worker.scene import FAST, SLOW, Scene, Worker

APP = "failures.apps.processes_app:app"
BOUND = 5.0
"""Seconds after its shutdown timeout by which a worker is gone, whatever happens (docs/operations.md, systemd)."""

EXECUTORS = ("async", "thread", "process")
NO_CORE = ["sh", "-c", 'ulimit -c 0; exec "$@"', "sh"]
executors = pytest.mark.parametrize("executor", EXECUTORS)


def assert_nobody_left(scene: Scene, within: float = 5.0) -> None:
    """No process that a worker of this scene started, or one of its jobs, lives."""
    try:
        eventually(lambda: not scene.processes(), within=within)
    except AssertionError:
        pytest.fail(f"left behind: {scene.processes()}\n{scene.logged()[-4000:]}")


def zombies(parent: int) -> list[int]:
    """The children of a process that have ended and that it has not collected."""
    tasks = Path(f"/proc/{parent}/task").iterdir()
    children = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    return [pid for pid in children if is_zombie(pid)]


# ------------------------------------------------------------------------------------------------------- forks and spawns


@executors
@pytest.mark.spec("W1", "W3")
@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_body_may_use_multiprocessing(scene: Scene, executor: str, how: str) -> None:
    """ORM-4: the app has a pool, threads and connections open. A copy can use the app, and can be told to end: this
    does not end the worker, whose signals the copy inherited; the pool answers as before."""
    worker = scene.worker(app=APP, slots=2)
    (child,) = worker.wait_children()
    names = scene.put(f"{executor}_multiplies", count=2, how=how)

    scene.wait_state("succeeded", *names)

    assert [scene.job(name)["result"] for name in names] == [[0, -signal.SIGTERM, 49]] * 2
    scene.wait_state("succeeded", *(f"{name}:{by}" for name in names for by in ("before", "copy")))
    assert [scene.job(name)["attempts"] for name in names] == [1, 1]
    assert worker.children() == [child]


@executors
@pytest.mark.spec("W1", "W6")
@pytest.mark.parametrize("how", ["returns", "raises", "exits"])
def test_a_copy_that_leaves_the_body_ends_and_speaks_for_nobody(scene: Scene, executor: str, how: str) -> None:
    """ORM-4: after os.fork() two processes run the body. One of them is the job's; the other's end is no outcome."""
    worker = scene.worker(app=APP, slots=1)
    (child,) = worker.wait_children()
    names = scene.put(f"{executor}_forks", key="forks", how=how) + scene.put(f"{executor}_uses_pool", count=3)

    scene.wait_state("succeeded", *names)

    code = 0 if how == "exits" else 1
    assert [scene.job(name)["result"] for name in names] == [["ours", code], 49, 49, 49]
    assert [scene.job(name)["attempts"] for name in names] == [1] * 4
    assert worker.children() == [child]
    assert scene.rows("SELECT * FROM fencepost.quarantine") == []


@executors
@pytest.mark.spec("W7")
def test_programs_that_a_body_starts_can_be_told_to_end(scene: Scene, executor: str) -> None:
    """A signal that is ignored stays so in the programs that one starts: ours are not."""
    scene.worker(app=APP)
    scene.put(f"{executor}_ends_another", key="ends")

    scene.wait_state("succeeded", "ends")

    assert scene.job("ends")["result"] == [-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP]


@executors
@pytest.mark.spec("W3", "W11")
def test_programs_that_outlive_their_body_live_as_long_as_the_worker(scene: Scene, executor: str) -> None:
    """SIG-14: Ctrl-C in a terminal leaves them the grace in which a body may need them; with the worker they end."""
    worker = scene.worker(app=APP, slots=2, shutdown_timeout=4)
    worker.wait_children()
    scene.put(f"{executor}_starts", key="starts")
    scene.wait_state("succeeded", "starts")
    (started,) = scene.all("started")
    scene.put("patient", seconds=1)
    scene.wait("begin", "patient")

    os.killpg(worker.pid, signal.SIGINT)
    worker.may_end = True

    always(lambda: is_alive(started["child"]), during=0.5)
    assert worker.ends() == 0
    assert scene.state("patient") == "succeeded"
    assert_nobody_left(scene)


@pytest.mark.spec("W7", "W11")
@pytest.mark.parametrize("how", ["hangs", "dies", "dies after a fork"])
def test_a_job_process_ends_with_the_programs_that_it_started(scene: Scene, how: str) -> None:
    """SIG-14: killed at its timeout, or dead by itself; the worker process lives on, and the next run is alone."""
    worker = scene.worker(app=APP, slots=2)
    (child,) = worker.wait_children()
    scene.put("parent", how=how)

    scene.wait("again", "parent")

    (started,) = scene.all("started")
    assert not is_alive(started["child"])
    scene.wait_state("succeeded", "parent")
    assert worker.children() == [child]


@executors
@pytest.mark.spec("W11")
def test_who_has_ended_is_collected(scene: Scene, executor: str) -> None:
    """Orphans of living workers come to the supervisor: it does not wait for a death of its own to collect them. SIG-7."""
    worker = scene.worker(app=APP, slots=2)
    (child,) = worker.wait_children()
    names = scene.put(f"{executor}_starts", count=4)
    names += scene.put("parent", key="hangs", how="hangs") + scene.put("parent", key="dies", how="dies")

    scene.wait_state("succeeded", *names)

    for parent in (worker.pid, child):
        eventually(lambda parent=parent: zombies(parent) == [], within=5)  # type: ignore[misc]


# ------------------------------------------------------------------------------------------------------ the signal table

Press = list[signal.Signals]
PRESSES: dict[str, Press] = {
    "TERM": [signal.SIGTERM],
    "INT": [signal.SIGINT],
    "HUP": [signal.SIGHUP],
    "PIPE": [signal.SIGPIPE],
    "TERM-INT": [signal.SIGTERM, signal.SIGINT],
    "INT-INT": [signal.SIGINT, signal.SIGINT],
    "HUP-TERM": [signal.SIGHUP, signal.SIGTERM],
    "QUIT": [signal.SIGQUIT],
}


@contextmanager
def silence() -> Iterator[str]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield f"postgresql://nobody:none@127.0.0.1:{one.getsockname()[1]}/none"


def catches(pid: int, number: signal.Signals = signal.SIGTERM) -> bool:
    """Whether it has a handler of its own for the signal."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except (FileNotFoundError, ProcessLookupError):
        pass
    return False


def press(worker: Worker, numbers: Press, *, to_all: bool = False) -> float:
    """Each signal, and a moment between two; when the first was sent."""
    began = time.monotonic()
    worker.may_end = worker.may_end or signal.SIGPIPE not in numbers
    for n, number in enumerate(numbers):
        if n:
            pause(0.3)
        for pid in [*(worker.children() if to_all else []), worker.pid]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
    return began


def assert_ends(worker: Worker, numbers: Press, began: float) -> None:
    """In time, with the documented code; SIGPIPE is nothing to it, and SIGQUIT ends it on the spot."""
    if signal.SIGPIPE in numbers:
        always(lambda: worker.process.poll() is None, during=0.5)
        began = press(worker, [signal.SIGTERM])
    code = worker.ends()
    took = time.monotonic() - began
    assert code == (-signal.SIGQUIT if signal.SIGQUIT in numbers else 0), worker.logged()
    assert took < FAST["shutdown_timeout"] + BOUND, worker.logged()
    assert "Traceback" not in worker.logged()


each_press = pytest.mark.parametrize("how", PRESSES)


@each_press
@pytest.mark.spec("W3")
@pytest.mark.parametrize("to_all", [False, True], ids=["supervisor", "every process"])
def test_signals_before_the_start_has_ended(scene: Scene, how: str, to_all: bool) -> None:
    """SIG-8: while the worker process imports the app."""
    worker = scene.worker(wrap=NO_CORE, app="worker.apps.heavy_app:app")
    eventually(lambda: worker.children() and catches(worker.pid), every=0.002)

    began = press(worker, PRESSES[how], to_all=to_all and how != "PIPE")

    assert_ends(worker, PRESSES[how], began)
    assert_nobody_left(scene)


@pytest.mark.spec("W3", "W11")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_a_worker_process_that_starts_ends_nothing_else(scene: Scene, number: signal.Signals) -> None:
    """It dies of it, whatever it was importing, and another starts: that is no error of the app."""
    worker = scene.worker(app="worker.apps.heavy_app:app")
    (first,) = eventually(worker.children, every=0.002)
    pause(0.8)

    os.kill(first, number)

    assert first not in worker.wait_children()
    assert "could not be imported" not in worker.logged()


@each_press
@pytest.mark.spec("W3", "W4")
def test_signals_while_it_connects_to_a_dead_database(scene: Scene, how: str) -> None:
    """SIG-8: it was never there, so there is nothing to write."""
    with silence() as dsn:
        worker = scene.worker(wrap=NO_CORE, dsn=dsn)
        eventually(lambda: worker.children() and catches(worker.pid), every=0.002)
        pause(0.7)

        began = press(worker, PRESSES[how])

        assert_ends(worker, PRESSES[how], began)
        assert_nobody_left(scene)


@each_press
@pytest.mark.spec("W3")
def test_signals_while_it_shuts_down(scene: Scene, how: str) -> None:
    """SIG-8: a second signal hands back what runs. After SIGQUIT the children end by themselves, and hand back as well."""
    worker = scene.worker(wrap=NO_CORE, slots=3)
    scene.put("sleep", seconds=60)
    scene.put("process_sleep", seconds=60)
    scene.wait("begin", count=2)
    press(worker, [signal.SIGTERM])
    pause(0.3)

    began = press(worker, PRESSES[how])

    assert_ends(worker, PRESSES[how], began)
    assert_nobody_left(scene, within=FAST["shutdown_timeout"] + BOUND)
    for name in ("sleep", "process_sleep"):
        assert (scene.state(name), scene.job(name)["attempts"]) == ("queued", 0)


@pytest.mark.spec("W3")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGPIPE, signal.SIGINT, signal.SIGTERM])
def test_signals_to_every_process_at_work(scene: Scene, number: signal.Signals) -> None:
    """SIG-1: whoever signals the whole service (systemd, a closing terminal) interrupts no body within the grace."""
    worker = scene.worker(slots=3, shutdown_timeout=8)
    names = [scene.put(task, key=task, seconds=1.5)[0] for task in ("sleep", "thread_sleep", "process_sleep")]
    scene.wait("begin", count=3)
    worker.may_end = True

    for pid in scene.processes():
        os.kill(pid, number)

    scene.wait_state("succeeded", *names)
    if number == signal.SIGPIPE:
        worker.send(signal.SIGTERM)
    assert worker.ends() == 0, worker.logged()
    assert [scene.job(name)["run_count"] for name in names] == [1, 1, 1]


@pytest.mark.spec("W3", "W7")
def test_a_signal_that_comes_with_the_greeting_loses_no_lease(scene: Scene) -> None:
    """The supervisor is stopped for a moment; its child begins, and a body that will not end. Then both are told to."""
    scene.put("thread_sleep", seconds=600)
    worker = scene.worker(shutdown_timeout=0.5, heartbeat_ttl=30)
    eventually(worker.children, every=0.002)
    worker.send(signal.SIGSTOP)
    scene.wait("begin", "thread_sleep")

    worker.send(signal.SIGTERM)
    worker.send(signal.SIGCONT)

    assert worker.ends() == 1
    assert (scene.state("thread_sleep"), scene.job("thread_sleep")["attempts"]) == ("queued", 0), worker.logged()
    assert_nobody_left(scene)


@pytest.mark.spec("W3", "W7")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT])
def test_a_worker_process_without_supervisor_ends_whatever_its_bodies_do(scene: Scene, number: signal.Signals) -> None:
    """SIG-11, SIG-14: a thread that never returns keeps nobody alive when the supervisor is gone."""
    worker = scene.worker(wrap=NO_CORE, shutdown_timeout=0.5)
    scene.put("thread_sleep", seconds=600)
    scene.wait("begin", "thread_sleep")

    worker.may_end = True
    os.kill(worker.pid, number)

    assert_nobody_left(scene, within=0.5 + BOUND)
    assert "Traceback" not in worker.logged()


@pytest.mark.spec("W3", "W4")
@pytest.mark.parametrize("how", ["stopped", "frozen"])
def test_a_stop_is_bounded_whatever_bodies_and_database_do(own_scene: Scene, how: str) -> None:
    """SIG-3, SIG-11: a thread that never ends, a body that swallows its cancellation, and nobody who takes their leases."""
    worker = own_scene.worker(slots=2, shutdown_timeout=1, heartbeat_ttl=30)
    own_scene.put("thread_sleep", seconds=600)
    own_scene.put("stubborn", seconds=600)
    own_scene.wait("begin", count=2)
    server = own_scene.database.server
    (server.freeze if how == "frozen" else partial(server.stop, "immediate"))()
    try:
        began = press(worker, [signal.SIGTERM])
        code = worker.ends()
        took = time.monotonic() - began
    finally:
        (server.thaw if how == "frozen" else server.start)()

    assert (code, took < 1 + BOUND) == (1, True), f"{took}\n{worker.logged()}"
    assert_nobody_left(own_scene)


# ----------------------------------------------------------------------------------------------------- a storm of signals

Act = tuple[float, Callable[[], object]]
KINDS = {
    "async_works": (0.0, 1.5),
    "thread_works": (0.0, 1.5),
    "process_works": (0.0, 1.5),
    "async_works:endless": (600.0, 600.0),
    "thread_works:endless": (600.0, 600.0),
    "process_works:endless": (600.0, 600.0),
    "async_deaf": (0.0, 0.0),
}
AT_ONCE = 4


class Struck:
    """One worker of a storm: when it was told to stop, and what came of it."""

    def __init__(self, scene: Scene, rng: random.Random) -> None:
        self.worker = scene.worker(app="failures.apps.storm_app:app", slots=4, shutdown_timeout=1.0, heartbeat_ttl=20)
        self.worker.may_end = True
        self.at = rng.uniform(0.0, 3.5)
        self.numbers = [rng.choice([signal.SIGTERM, signal.SIGINT])]
        if rng.random() < 0.4:
            self.numbers.append(rng.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))
        self.between = rng.uniform(0.0, 1.5)
        self.was_up = False
        self.told_at = 0.0

    def strike(self, number: signal.Signals) -> None:
        if not self.told_at:
            self.was_up = catches(self.worker.pid)
            self.told_at = time.monotonic()
        if self.worker.process.poll() is None:
            os.kill(self.worker.pid, number)

    def acts(self) -> list[Act]:
        return [(self.at + n * self.between, partial(self.strike, number)) for n, number in enumerate(self.numbers)]

    def judge(self) -> None:
        left = self.told_at + 1.0 + BOUND - time.monotonic()
        code = self.worker.ends(within=max(left, 0.1))
        logged = self.worker.logged()
        if not self.was_up:  # before the interpreter was up, a signal does what it does to any program
            assert code in (0, 1, 130, -signal.SIGTERM, -signal.SIGINT), logged
            return
        assert code in (0, 1), logged
        ours_to_tell = ("did not stop in time", "ended with exit code 1", "longer than heartbeat")
        assert code == (1 if any(words in logged for words in ours_to_tell) else 0), logged


def _storm(scene: Scene, rng: random.Random, number: int, *, outage: bool) -> None:
    names: list[str] = []
    for kind, (least, most) in KINDS.items():
        task = kind.partition(":")[0]
        for n in range(3 if most in (0.0, 600.0) else 12):
            names += scene.put(task, key=f"{number}:{kind}:{n}", seconds=round(rng.uniform(least, most), 3))
    struck = [Struck(scene, rng) for _ in range(AT_ONCE)]
    acts = [act for one in struck for act in one.acts()]
    if outage:
        server = scene.database.server
        begins = rng.uniform(1.0, 3.0)
        acts += [(begins, lambda: server.stop("immediate")), (begins + rng.uniform(0.2, 2.0), server.start)]
    began = time.monotonic()
    for at, act in sorted(acts, key=lambda act: act[0]):
        pause(max(0.0, began + at - time.monotonic()))
        act()
    for one in struck:
        one.judge()
    assert_nobody_left(scene)

    places = scene.rows("SELECT job_id, state, attempts FROM fencepost.jobs WHERE job_id LIKE %s", f"{number}:%")
    assert len(places) == len(names)
    if not outage:  # else what could not be written is left to the ttl
        bad = [place for place in places if place[1] != "succeeded" and place[1:] != ("queued", 0)]
        assert bad == [], "".join(one.worker.logged() for one in struck)
    assert {state for _, state, _ in places} <= {"succeeded", "queued", "running"}


def _storms(scene: Scene, seed: int, signals: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    for number in range(-(-signals // AT_ONCE)):
        _storm(scene, rng, number, outage=number % 3 == 2)
    scene.folder.joinpath("calm").touch()
    last = scene.worker(app="failures.apps.storm_app:app", slots=8)
    eventually(lambda: scene.value("SELECT count(*) FROM fencepost.jobs WHERE state <> 'succeeded'") == 0, within=60)
    last.send(signal.SIGTERM)
    assert last.ends() == 0
    assert scene.rows("SELECT * FROM fencepost.quarantine") == []
    assert scene.rows("SELECT * FROM fencepost.fsck") == []
    assert_nobody_left(scene)


@pytest.mark.slow
@pytest.mark.spec("W3", "W4", "W7", "C1")
def test_signals_at_random_moments_lose_nothing_and_leave_nobody(own_scene: Scene) -> None:
    """SIG-2, SIG-3, SIG-11, STK-8: 12 workers with bodies of every kind, told to stop at any moment of their lives."""
    _storms(own_scene, random.randrange(1 << 30), 12)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_50_signals_at_random_moments_lose_nothing_and_leave_nobody(own_scene: Scene, seed: int) -> None:
    _storms(own_scene, seed, 50)


# ------------------------------------------------------------------------------------------------- inside other programs


def _served(scene: Scene, seen: dict[str, Any]) -> App:
    app = App(scene.database.dsn, name="embedded")

    @app.task("plain")
    def plain() -> str:
        seen["plain"] = threading.current_thread().name
        return "plain"

    @app.task("on_loop")
    async def on_loop() -> str:
        seen["on_loop"] = threading.current_thread().name
        return "on_loop"

    return app


def _handlers() -> list[Any]:
    return [signal.getsignal(number) for number in signal.valid_signals()]


def _ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("fencepost")]


@pytest.mark.spec("W1", "W3")
def test_a_worker_in_a_thread_of_another_program(scene: Scene) -> None:
    """SIG-9: no signal handler is needed or touched; it works, and stops when it is told to."""
    seen: dict[str, Any] = {}
    app = _served(scene, seen)
    before = _handlers()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []
    ends: list[str] = []

    async def serve() -> None:
        me = asyncio.current_task()
        assert me is not None
        loops.append((asyncio.get_running_loop(), me))
        await app.worker(slots=2, **FAST).run()

    def work() -> None:
        try:
            asyncio.run(serve())
        except asyncio.CancelledError:
            ends.append("cancelled")

    thread = threading.Thread(target=work, name="web server")
    thread.start()
    scene.put("plain")
    scene.put("on_loop")
    scene.wait_state("succeeded", "plain", "on_loop")
    during = _handlers()
    ((loop, task),) = loops
    loop.call_soon_threadsafe(task.cancel)
    thread.join(FAST["shutdown_timeout"] + BOUND)

    assert not thread.is_alive()
    assert ends == ["cancelled"]
    assert during == before == _handlers()
    assert seen["on_loop"] == "web server"
    assert scene.running() == 0
    eventually(lambda: _ours() == [], within=5)
    app.close()


@pytest.mark.spec("W1", "W3")
def test_a_worker_beside_others_on_a_loop_that_runs(scene: Scene) -> None:
    """SIG-10: begun, stopped and begun again under one loop; what else runs there is not touched."""
    seen: dict[str, Any] = {}
    app = _served(scene, seen)

    async def program() -> int:
        ticks, before = 0, _handlers()

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        other = asyncio.create_task(tick())
        for turn in range(3):
            async with app.worker(slots=2, **FAST) as worker:
                await asyncio.to_thread(scene.put, "plain", key=f"plain {turn}")
                await asyncio.to_thread(scene.put, "on_loop", key=f"on_loop {turn}")
                await worker.run_until_idle(SLOW)
                assert _handlers() == before
        assert asyncio.all_tasks() == {asyncio.current_task(), other}
        other.cancel()
        return ticks

    assert asyncio.run(program()) > 20
    assert scene.value("SELECT count(*) FROM fencepost.jobs WHERE state = 'succeeded'") == 6
    assert seen["on_loop"] == "MainThread"
    eventually(lambda: _ours() == [], within=5)
    app.close()
