"""Whether the points can fail: each broken variant of the library must be noticed (SPEC D4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from fencepost.client import again, sync
from fencepost.client.batch import Batch, new_job_id
from fencepost.domain.job import Fence
from fencepost.sql.catalog import Catalog
from fencepost.store import jobs, migrator
from fencepost.worker.child import clerk
from fencepost.worker.supervisor import clerk as supervisor
from points import clerks, enqueuing, operating, working
from points.injector import injecting
from points.migrating import Migrations
from points.operations import Operation, World, count, explore
from servers import Database
from sql.hands import write_function

Patch = Callable[[pytest.MonkeyPatch], None]


class Mutant(NamedTuple):
    """What is broken, and the operation and the way that show it."""

    name: str
    break_it: Patch
    operation: str
    way: str


def _no_idempotency(patch: pytest.MonkeyPatch) -> None:
    """Every try gets ids of its own."""
    real = sync.Client._send

    def send(self: Any, conn: Any, work: Batch, on_terminal: str) -> Any:
        fresh = tuple(job._replace(job_id=new_job_id()) for job in work.jobs)
        return real(self, conn, Batch(fresh, work.ours), on_terminal)

    patch.setattr(sync.Client, "_send", send)


def _several_transactions(patch: pytest.MonkeyPatch) -> None:
    """A batch is committed piece by piece."""

    def own(self: Any, work: Batch) -> Any:
        return self._tried(lambda conn, _: self._send(conn, work, "resubmit"), again.Again(budget_s=9.0, harmless=True))

    patch.setattr(sync.Client, "_own", own)


def _acts_twice(patch: pytest.MonkeyPatch) -> None:
    """An operator's act whose answer was lost is sent again, and answers what the second found."""
    real = again.Again.__init__
    patch.setattr(
        again.Again, "__init__", lambda self, *, budget_s, harmless: real(self, budget_s=budget_s, harmless=True)
    )


def _new_fence(patch: pytest.MonkeyPatch) -> None:
    """The clerk sends again under the fence of the next run."""
    real = clerk.Clerk._write

    def write(self: Any) -> None:
        try:
            real(self)
        except Exception:
            for written in self._again:
                fence = written.held.fence
                written.held.fence = Fence(fence.id, fence.run_count + 1, fence.token)
            raise

    patch.setattr(clerk.Clerk, "_write", write)


def _already_is_lost(patch: pytest.MonkeyPatch) -> None:
    """The clerk takes the second answer for a lost lease."""
    real = clerk.Clerk._is_answered

    def is_answered(self: Any, written: Any, settled: Any) -> bool:
        if settled is not None and settled.answer == "already":
            settled = jobs.Settled("lost", None)
        return real(self, written, settled)

    patch.setattr(clerk.Clerk, "_is_answered", is_answered)


def _claims_are_kept(patch: pytest.MonkeyPatch) -> None:
    """What a lost answer had claimed is never given back."""
    patch.setattr(clerk.Clerk, "_release_unknown", lambda self: setattr(self, "_ask_mine", False))


def _outcomes_are_dropped(patch: pytest.MonkeyPatch) -> None:
    """A batch whose answer was lost is forgotten."""
    real = clerk.Clerk._write

    def write(self: Any) -> None:
        try:
            real(self)
        except Exception:
            for written in self._again:
                self._drop(written.held)
            self._again.clear()
            raise

    patch.setattr(clerk.Clerk, "_write", write)


def _rescued_once(patch: pytest.MonkeyPatch) -> None:
    """The supervisor does not repeat a rescue."""
    real = supervisor.Clerk._attempt
    patch.setattr(supervisor.Clerk, "_attempt", lambda self, call: real(self, call) or True)


MUTANTS = [
    Mutant("enqueue is repeated without idempotency", _no_idempotency, "enqueue, pooled connection", "after_commit"),
    Mutant(
        "a batch is committed piece by piece", _several_transactions, "enqueue_many, pooled connection", "interrupted"
    ),
    Mutant("an act is sent twice", _acts_twice, "cancel what waits", "after_commit"),
    Mutant("outcomes go under a new fence", _new_fence, "the child's clerk as a whole", "before_send"),
    Mutant("already is lost", _already_is_lost, "the child's clerk as a whole", "after_commit"),
    Mutant("claims are not given back", _claims_are_kept, "the child's clerk as a whole", "after_commit"),
    Mutant("outcomes are dropped", _outcomes_are_dropped, "the child's clerk as a whole", "dead"),
    Mutant("a rescue is not repeated", _rescued_once, "the supervisor's clerk as a whole", "57P01"),
]
ALL = {
    one.name: one
    for one in [*enqueuing.OPERATIONS, *operating.OPERATIONS, *working.OPERATIONS, *clerks.OPERATIONS]
}  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.spec("D4")
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_broken_library_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> None:
    counted = count(world, ALL[mutant.operation])

    mutant.break_it(monkeypatch)

    assert explore(world, ALL[mutant.operation], mutant.way, counted).wrong != []


@pytest.mark.timeout(300)
@pytest.mark.spec("D4")
def test_a_storage_that_settles_one_run_twice_is_noticed(world: World) -> None:
    """The same outcome, sent again after a lost answer, is accepted a second time."""
    originals = {file.name: file.text for file in Catalog().functions()}
    right = "THEN 'already' ELSE 'lost' END"
    assert right in originals["_settle"], "the mutant no longer fits the function: write it anew"
    operation = ALL["settle a mixed batch"]
    counted = count(world, operation)

    wrong = originals["_settle"].replace(right, "THEN 'accepted' ELSE 'lost' END")
    write_function(world.witness.conn, wrong, originals)
    try:
        found = explore(world, operation, "after_commit", counted)
    finally:
        write_function(world.witness.conn, originals["_settle"], originals)

    assert any("accepted 2 times" in one for one in found.wrong)


@pytest.fixture
def migrations(empty_database: Database) -> Iterator[Migrations]:
    with injecting(empty_database.dsn) as injector, empty_database.connect() as conn:
        made = Migrations(empty_database, injector, conn)
        made.prepare()
        yield made


@pytest.mark.timeout(300)
@pytest.mark.spec("D4")
def test_a_migration_that_records_before_it_applies_is_noticed(
    migrations: Migrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = migrator.Migrator._in_transaction

    def record_first(self: Any, files: Any, kind: str) -> None:
        if kind != "migration":
            real(self, files, kind)
            return
        for file in files:
            self._record(file, kind)
        with self.conn.transaction():
            for file in files:
                self.conn.execute(file.text.encode())

    monkeypatch.setattr(migrator.Migrator, "_in_transaction", record_first)

    assert migrations.explore("dead", most=25).wrong != []


def test_every_named_operation_is_there_once() -> None:
    listed = [*enqueuing.OPERATIONS, *operating.OPERATIONS, *working.OPERATIONS, *clerks.OPERATIONS]

    assert len(ALL) == len(listed)
    assert all(isinstance(one, Operation) for one in listed)
