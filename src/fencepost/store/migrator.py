"""Applies migrations: safe by two at once, under load, and again after a kill at any point (SPEC A4).

Numbered files are applied once and recorded in the transaction that applied them. Files that cannot run in one (CREATE
INDEX CONCURRENTLY) are repeatable statement by statement, and an index that a cut-off build left invalid is
dropped and built again, as is one that somebody dropped; indexes that no file of ours makes are nobody's business here.
Functions are repeatable as a whole: when one text changed or one is gone all are written anew, in one transaction, so
that the file that attaches their settings reaches every one.

Locks on tables are waited for briefly and asked for again, because whoever comes after a waiter waits behind it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from fencepost.errors import OutageError, SchemaError, UsageError
from fencepost.sql.catalog import Catalog, SqlFile
from fencepost.store import faults, platform
from fencepost.store.connect import DeadlineConnection
from fencepost.store.platform import ask
from fencepost.version import __version__

Progress = Callable[[str], None]

DEADLINE_S = 30.0
LOCK_TIMEOUT = "2s"
LOCK_PATIENCE_S = 120.0
TURN_PATIENCE_S = 900.0
_AGAIN_S = 0.2
_SAY_EVERY_S = 5.0
_INDEX = re.compile(
    r"(CREATE|DROP)\s+INDEX\s+CONCURRENTLY\s+IF\s+(?:NOT\s+)?EXISTS\s+(?:[a-z0-9_]+\.)?([a-z0-9_]+)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateReport:
    """What a migration did: files applied, functions written, indexes built again (invalid or gone), contract files left."""

    applied: tuple[str, ...] = ()
    functions: int = 0
    rebuilt: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """One line of the schema's record."""

    name: str
    kind: str
    breaking: bool
    checksum: str
    program: str


def applied(conn: psycopg.Connection[Any], sql: Catalog) -> dict[str, Applied]:
    """The record, by file name. The record must be there."""
    rows = ask(conn, sql, "schema/applied")
    return {
        name: Applied(name=name, kind=kind, breaking=breaking, checksum=checksum, program=program)
        for name, kind, breaking, checksum, program in rows
    }


def changed_files(sql: Catalog, record: dict[str, Applied]) -> list[str]:
    """Migrations that were applied with another text than this program has."""
    return [
        file.name for file in sql.migrations() if file.name in record and record[file.name].checksum != file.checksum
    ]


def is_later(sql: Catalog, record: dict[str, Applied]) -> bool:
    """Whether a later release than this program was here: it has recorded itself, or migrations that we do not know."""
    known = {file.name for file in sql.migrations()}
    return any(
        is_newer(line.program) or (line.kind == "migration" and line.name not in known) for line in record.values()
    )


def own_indexes(files: Iterable[SqlFile]) -> dict[str, str]:
    """The indexes that these migrations leave, by name, each with the statement that builds it."""
    found: dict[str, str | None] = {}
    for file in files:
        found |= file.indexes()
    return {name: build for name, build in found.items() if build is not None}


def missing_functions(conn: psycopg.Connection[Any], sql: Catalog) -> list[str]:
    """Functions of this program's that the schema does not have."""
    there = {row[0] for row in ask(conn, sql, "schema/functions")}
    return [name for name in sql.function_names() if name not in there]


def is_newer(program: str) -> bool:
    """Whether a recorded program is a later release than this one."""
    return _release(program) > _release(__version__)


def record_values(file: SqlFile, kind: str) -> dict[str, Any]:
    """What the record says of a file."""
    return {
        "name": file.name,
        "kind": kind,
        "phase": file.header.get("phase", "expand") if kind == "migration" else "repeat",
        "breaking": file.breaking,
        "checksum": file.checksum,
        "program": __version__,
    }


@dataclass
class Migrator:
    """One run on one direct connection in autocommit. ``expand_only`` leaves contract files for a later run."""

    conn: DeadlineConnection
    sql: Catalog
    say: Progress
    expand_only: bool = False
    _rebuilt: list[str] = field(default_factory=list)

    def run(self) -> MigrateReport:
        """Wait for our turn and apply what is missing. What was applied stays, whatever happens next."""
        self._wait_for_turn()
        self._patiently("the schema", lambda: self._locally("schema/prepare"))
        record = applied(self.conn, self.sql)
        if changed := changed_files(self.sql, record):
            raise SchemaError(changed_sentence(self.sql, changed))
        missing = [file for file in self.sql.migrations() if file.name not in record]
        wanted = [file for file in missing if not (self.expand_only and file.header.get("phase") == "contract")]
        for file in wanted:
            self._apply(file)
        self._mend_indexes([file for file in self.sql.migrations() if file.name in record or file in wanted], record)
        return MigrateReport(
            applied=tuple(file.name for file in wanted),
            functions=self._functions(record),
            rebuilt=tuple(self._rebuilt),
            left=tuple(file.name for file in missing if file not in wanted),
        )

    def _wait_for_turn(self) -> None:
        """Ask for the session's lock again and again; never wait for it in the server."""
        begun = told = time.monotonic()
        while not ask(self.conn, self.sql, "schema/lock")[0][0]:
            now = time.monotonic()
            if now - begun > TURN_PATIENCE_S:
                minutes = f"{TURN_PATIENCE_S / 60:g} minutes"
                message = f"another migration has been running for {minutes}; look at it, and run this again"
                raise OutageError(message)
            if told == begun or now - told > _SAY_EVERY_S:
                self.say("another migration is running; waiting for it")
                told = now
            time.sleep(_AGAIN_S)

    def _apply(self, file: SqlFile) -> None:
        self.say(f"applying {file.name}")
        if file.in_transaction:
            self._patiently(file.name, lambda: self._in_transaction([file], "migration"))
            return
        for statement in file.statements():
            self._alone(statement)
        self._patiently(file.name, lambda: self._record(file, "migration"))

    def _functions(self, record: dict[str, Applied]) -> int:
        """Write all functions if one of them changed or is gone; never over those of a later release."""
        files = self.sql.functions()
        if any(line.kind == "function" and is_newer(line.program) for line in record.values()):
            self.say("the functions are of a newer release and are left as they are")
            return 0
        known = all(file.name in record and record[file.name].checksum == file.checksum for file in files)
        if known and not missing_functions(self.conn, self.sql):
            return 0
        self.say(f"writing {len(files)} functions")
        self._patiently("the functions", lambda: self._in_transaction(files, "function"))
        return len(files)

    def _in_transaction(self, files: Sequence[SqlFile], kind: str) -> None:
        with self.conn.transaction():
            self._lock_timeout(LOCK_TIMEOUT, local=True)
            for file in files:
                self.conn.execute(file.text.encode())
                self._record(file, kind)
            if kind == "function":
                ask(self.conn, self.sql, "schema/forget", {"names": [file.name for file in files]})

    def _locally(self, name: str) -> None:
        with self.conn.transaction():
            self._lock_timeout(LOCK_TIMEOUT, local=True)
            self.conn.execute(self.sql.statement(name).encode())

    def _record(self, file: SqlFile, kind: str) -> None:
        ask(self.conn, self.sql, "schema/record", record_values(file, kind))

    def _lock_timeout(self, text: str, *, local: bool) -> None:
        ask(self.conn, self.sql, "schema/lock_timeout", {"text": text, "local": local})

    # ------------------------------------------------------------------------------------------------- indexes

    def _alone(self, statement: str) -> None:
        """One statement outside a transaction. Index builds wait as long as it takes: nobody queues behind them."""
        index = _INDEX.match(statement)
        if index is None:
            self._lock_timeout(LOCK_TIMEOUT, local=False)
            self._patiently("a table", lambda: self.conn.execute(statement.encode()))
            return
        verb, name = index[1].upper(), index[2].lower()
        valid = self._indexes().get(name)
        if (verb == "CREATE" and valid is not None) or (verb == "DROP" and valid is not False):
            return
        if verb == "DROP":
            self.say(f"index {name} was left invalid by a build that was cut off; building it again")
            self._rebuilt.append(name)
        self._lock_timeout("0", local=False)
        deadline_s, self.conn.deadline_s = self.conn.deadline_s, None
        self.conn.on_wait = lambda seconds: self.say(
            f"index {name}: {verb.lower()} has run for {seconds:.0f} s (it waits for transactions that began before it)"
        )
        try:
            self._patiently(f"index {name}", lambda: self.conn.execute(statement.encode()))
        finally:
            self.conn.deadline_s, self.conn.on_wait = deadline_s, None

    def _indexes(self) -> dict[str, bool]:
        return dict(ask(self.conn, self.sql, "schema/indexes"))

    def _mend_indexes(self, files: Sequence[SqlFile], record: dict[str, Applied]) -> None:
        """Build again what was left invalid after its file had been recorded, and what somebody dropped.

        After a later release only the former: it may have dropped an index on purpose.
        """
        there = self._indexes()
        later = is_later(self.sql, record)
        for name, build in own_indexes(files).items():
            if there.get(name) or (later and name not in there):
                continue
            if name not in there:
                self.say(f"index {name} is gone; building it again")
                self._rebuilt.append(name)
            self._alone(ask(self.conn, self.sql, "schema/drop_index", {"name": name})[0][0])
            self._alone(build)

    # ----------------------------------------------------------------------------------------------- patience

    def _patiently(self, what: str, act: Callable[[], object]) -> None:
        """Run ``act`` until it gets its locks, at most two minutes; it leaves nothing behind when it does not."""
        begun = told = time.monotonic()
        while True:
            try:
                act()
                return
            except psycopg.Error as error:
                if faults.sqlstate(error) not in {"55P03", "40P01", "40001"}:
                    raise
                now = time.monotonic()
                if now - begun > LOCK_PATIENCE_S:
                    message = (
                        f"{what} has been locked by others for {LOCK_PATIENCE_S:.0f} s: end the transaction that holds "
                        "it (pg_stat_activity, xact_start) and run this again; what was done is kept"
                    )
                    raise OutageError(message) from error
                if told == begun or now - told > _SAY_EVERY_S:
                    self.say(f"waiting for a lock on {what} that another transaction holds")
                    told = now
            time.sleep(_AGAIN_S)


def require_session(conn: DeadlineConnection, dsn: str, sql: Catalog) -> None:
    """Raise UsageError behind a transaction pooler: the migrators' lock and index builds need one server process."""
    if platform.is_transaction_pooled(conn, dsn, sql):
        message = (
            "this connection goes through a transaction pooler, and migrations need one of their own: "
            "set FENCEPOST_DIRECT_DSN to the server itself"
        )
        raise UsageError(message)


def changed_sentence(sql: Catalog, changed: Sequence[str]) -> str:
    """One sentence about migrations whose text is not the one that was applied."""
    return (
        f"{', '.join(changed)} was applied to schema {sql.schema} with another text than this program has: an applied "
        "migration never changes; install the release that applied it, or a later one"
    )


def _release(program: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", program)[:3])
