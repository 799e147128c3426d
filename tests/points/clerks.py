"""The two clerks as wholes: the child's, from its registration to its last outcome, and the supervisor's.

The child's clerk runs in the test's own thread: its bodies are run where they would be given to a slot, and where it
would wait for work, the pulse beats. So its calls come in one order, and a lost one is followed by what the library does.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from typing import Any

from fencepost import App
from fencepost.domain.control import Permanent, RetryLater
from fencepost.store import workers
from fencepost.store.wire import Wire
from fencepost.tasks.context import JobContext
from fencepost.tasks.events import LeaseLost
from fencepost.worker import words
from fencepost.worker.board import Board, boot_ns
from fencepost.worker.child.held import Held
from fencepost.worker.child.runtime import Runtime
from fencepost.worker.pulse import beat_boards, needs_beat
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervisor.clerk import Clerk, HandBack, Rescue
from fencepost.worker.supervisor.clerk import Fatal as ClerkFatal
from points.enqueuing import new
from points.operations import Operation, World
from waiting import eventually

SETTINGS = WorkerSettings.create(
    queues=["default"], slots=2, heartbeat_interval=1.0, heartbeat_ttl=30.0, poll_interval=0.01, notify=False
)
TASKS = ("good", "bad", "later", "once", "saves", "unknown", "cancelled")
ENDS = {"good": "succeeded 1/1", "bad": "failed 1/1", "later": "retrying 1/1", "once": "succeeded 1/1",
        "saves": "succeeded 1/1", "unknown": "parked 0/1", "cancelled": "cancelled 1/1"}  # fmt: skip


def shop(world: World) -> App:
    """An app whose bodies write down that they began."""
    app = App(world.dsn)

    @app.task("good")
    def good() -> int:
        return 1

    @app.task("bad")
    def bad() -> None:
        raise Permanent("no")

    @app.task("later")
    def later() -> None:
        raise RetryLater(3600)

    @app.task("once", at_most_once=True)
    def once() -> None: ...

    @app.task("saves")
    def saves(job: JobContext) -> None:
        world.persist(lambda: job.save_checkpoint({"at": 7}))

    @app.task("cancelled")
    def cancelled() -> None:
        """Somebody cancels it before it asks for another attempt."""
        world.witness.ask("select fencepost.cancel_v1('cancelled', 'test')")
        raise RetryLater(3600)

    return app


class Waiting:
    """Stands for the event on which the clerk waits: there, one beat; and the end, when all is done.

    Whoever asks whether it is set is told so: outcomes are written in the next round in any case.
    """

    def __init__(self, world: World, runtime: Runtime) -> None:
        self.world, self.runtime = world, runtime
        self.wire = Wire(world.dsn, deadline=10.0, name="pulse")
        self.rounds = 0

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def is_set(self) -> bool:
        return True

    def wait(self, _: float) -> None:
        self.rounds += 1
        assert self.rounds < 200, f"the clerk does not come to its end: {self.world.begun}"
        runtime = self.runtime
        try:
            said = beat_boards(self.wire, self.world.sql, {runtime.token: runtime.board}, [runtime.token])
            runtime.on_answers(said[runtime.token])
        except Exception:  # as the pulse does
            self.wire.close()
            runtime.on_trouble()
            return
        waits = self.world.witness.one(
            "select (select count(*) from fencepost.ready) + (select count(*) from fencepost.running)"
        )
        if runtime.room.is_empty and not waits:
            runtime.clerk.ending = True


def _work(world: World) -> None:
    app = shop(world)
    lost: list[LeaseLost] = []
    app.on(LeaseLost, lost.append)
    board = Board(None, 0, SETTINGS.entries)
    runtime = Runtime(app, SETTINGS, dsn=world.dsn, board=board, app_path=None, supervised=False)
    board.open(runtime.token)
    room, waiting = runtime.room, Waiting(world, runtime)

    def run_here(held: Held) -> None:
        if room._begin(held):
            world.begun[held.fence.id, held.fence.run_count] += 1
            room._ended(held, contextvars.Context().run(room._attempts.run_sync, held))

    room._start = run_here  # type: ignore[method-assign]
    runtime.clerk._wake = waiting  # type: ignore[assignment]
    runtime._loop_age = lambda: 0.0  # type: ignore[method-assign]
    runtime.clerk._loop_age = lambda: 0.0
    try:
        with world.faults():
            runtime.clerk.run()
    finally:
        for wire in (waiting.wire, runtime.clerk._wire, runtime.clerk._saver):
            wire.close()
        app.close()
    world.notes |= {"error": runtime.error, "lost": lost, "left": len(room.held), "token": runtime.token}


def _jobs(world: World) -> None:
    world.put(*(new(name)._replace(task=name) for name in TASKS))


def _worked(world: World) -> Iterator[str]:
    """No lease ran out, so each body began once, and all ended as it said; nothing is held by anybody."""
    if world.notes["error"]:
        yield f"the worker gave up: {world.notes['error']}"
    if world.notes["lost"]:
        yield f"a lease is said to be lost: {world.notes['lost']}"
    if world.notes["left"]:
        yield f"{world.notes['left']} runs are left in its room"
    left = world.witness.ask("select id, run_count from fencepost.running")
    if left:
        yield f"leases are left that nobody has: {left}"
    per_job: dict[int, int] = {}
    for (id_, _), times in world.begun.items():
        per_job[id_] = per_job.get(id_, 0) + times
    if sorted(per_job.values()) != [1] * (len(TASKS) - 1):
        yield f"bodies begun: {per_job}"
    found = dict(world.witness.ask("select job_id, label || ' ' || attempts from fencepost.jobs"))
    wanted = {name: end.partition("/")[0] for name, end in ENDS.items()}
    if found != wanted:
        yield f"the jobs are {found}"
    rows = world.witness.ask("select from fencepost.worker where token = %s", world.notes["token"])
    if rows and world.injector.fired is None:  # after a fault the leader may have to forget it
        yield "its row is left"


# --------------------------------------------------------------------------------------------------------- the supervisor


class FakeChild:
    """What the supervisor's clerk knows of a child."""

    def __init__(self, token: int, board: Board) -> None:
        self.token, self.board = token, board
        self.handed_back: set[tuple[int, int]] = set()
        self.hand_back_asked = True
        self.told: list[Any] = []

    @property
    def alive_at(self) -> int:
        return boot_ns()

    def tell(self, word: Any) -> None:
        self.told.append(word)

    def describe(self) -> str:
        return "a child"


LIVING, DEAD = 21, 22
OF_DEAD = {"a": "recovered 1/1", "b": "retrying 1/1", "c": "queued 0/1", "d": "queued 0/1"}
OF_LIVING = {"e": "running 1/1", "f": "queued 0/1"}


def _two_children(world: World) -> None:
    """One is dead: it had started a, b is overdue, c was interrupted, d had not begun. The other runs e, and f waits."""
    for token, names in ((DEAD, "abcd"), (LIVING, "ef")):
        world.plain(workers.register(world.sql, token, "h", token, {"t": 1}))
        world.put(*(new(name) for name in names))
        world.notes[str(token)] = world.claim(token)


def _supervise(world: World) -> None:
    board = Board(None, 0, 16)
    child = FakeChild(LIVING, board)
    for fence in world.notes[str(LIVING)]:
        at = board.publish(fence.id, fence.run_count, 1)
        if fence is world.notes[str(LIVING)][0]:
            board.start(at)
    # leases that are too young for the first beat would make it two, now and then
    eventually(lambda: all(needs_beat(entry, boot_ns()) for entry in board.snapshot()), every=0.001)
    events: list[Any] = []
    clerk = Clerk(world.dsn, world.sql, SETTINGS, living=lambda: [child], tell=events.append)  # type: ignore[list-item]
    a, b, c, _ = (fence.id for fence in world.notes[str(DEAD)])
    clerk.order(Rescue(DEAD, started=(a,), overdue=(b,), interrupted=(c,)))
    clerk.order(HandBack(child))  # type: ignore[arg-type]
    with world.faults():
        for _ in range(100):
            clerk._beat_at = 0.0
            clerk._take_orders()
            clerk._work()
            if not clerk._open and any(isinstance(word, words.Beaten) and word.runs for word in child.told):
                break
    clerk._wire.close()
    world.notes |= {"child": child, "open": list(clerk._open), "events": events}


def _supervised(world: World) -> Iterator[str]:
    child: FakeChild = world.notes["child"]
    found = dict(
        world.witness.ask(
            "select job_id, coalesce(label, '') || ' ' || attempts || '/' || run_count from fencepost.jobs"
        )
    )
    if found != OF_DEAD | OF_LIVING:
        yield f"the jobs are {found}"
    if world.notes["open"] or any(isinstance(event, ClerkFatal) for event in world.notes["events"]):
        yield f"left undone: {world.notes['open']}, {world.notes['events']}"
    if not world.witness.ask("select from fencepost.running where token = %s and heartbeat_at is not null", LIVING):
        yield "the child that lives was not beaten"
    if world.witness.ask("select token from fencepost.worker") != [(LIVING,)]:
        yield "the worker rows are not those of the living"
    e, f = (fence.id for fence in world.notes[str(LIVING)])
    lost = {id_ for word in child.told if isinstance(word, words.LostJobs) for id_, _ in word.runs}
    if lost != {f}:
        yield f"lost are said to be {lost}, but it is {f} that was handed back"
    if e not in {id_ for word in child.told if isinstance(word, words.Beaten) for id_, _ in word.runs}:
        yield "the child did not hear that its lease was renewed"


OPERATIONS = [
    Operation("the child's clerk as a whole", _work, given=_jobs, at_once=_worked, spared=("interrupted",)),
    Operation("the supervisor's clerk as a whole", _supervise, given=_two_children, at_once=_supervised,
              spared=("interrupted",)),
]  # fmt: skip
