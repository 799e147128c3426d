"""The schema as a whole: bring it up to date, print it, compare it, and the look that a worker takes at its start.

Only `migrate` changes anything. A worker calls `verify`, which never does: it says in one sentence what to run.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from fencepost.errors import SchemaError
from fencepost.sql.catalog import Catalog, SqlFile
from fencepost.store import faults, platform
from fencepost.store.connect import open_connection
from fencepost.store.migrator import (
    DEADLINE_S,
    Applied,
    MigrateReport,
    Migrator,
    Progress,
    applied,
    changed_files,
    changed_sentence,
    is_newer,
    missing_functions,
    own_indexes,
    record_values,
    require_session,
)
from fencepost.store.platform import ask

__all__ = ["MigrateReport", "SchemaReport", "check", "migrate", "plan_sql", "verify"]

log = logging.getLogger("fencepost.schema")

_USABLE = frozenset({"current", "newer", "invalid index", "missing index"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReport:
    """How the database's schema compares with this program's.

    ``state``: ``current``; ``missing``; ``older``; ``newer`` (usable all the same); ``too new`` (not usable);
    ``changed`` (an applied file has another text); ``invalid index``, ``missing index`` (usable, slower). ``names``: the
    files, functions or indexes.
    """

    state: str
    sentence: str
    names: tuple[str, ...] = ()

    @property
    def is_current(self) -> bool:
        """Whether there is nothing to do."""
        return self.state in {"current", "newer"}

    @property
    def is_usable(self) -> bool:
        """Whether this program may run on it."""
        return self.state in _USABLE


def migrate(dsn: str, sql: Catalog, *, progress: Progress | None = None, expand_only: bool = False) -> MigrateReport:
    """Bring the schema up to date; safe by two at once, under load, and again after a crash at any point.

    ``progress`` hears a line for each step and while it waits. ``expand_only`` leaves what would break the release
    before (contract files) for a run after its last worker is gone. Raises one of our errors with one sentence; what
    was applied until then stays. A server that falls silent is an outage after half a minute; only the builds of
    indexes may take longer, and their socket is probed.
    """
    try:
        with open_connection(dsn, name="migrate", deadline_s=DEADLINE_S) as conn:
            platform.require(conn, sql)
            require_session(conn, dsn, sql)
            return Migrator(conn, sql, progress or (lambda _: None), expand_only).run()
    except psycopg.Error as error:
        raise faults.translate(error) from error


def check(conn: psycopg.Connection[Any], sql: Catalog) -> SchemaReport:
    """Compare, changing nothing. Raises psycopg's errors."""
    if not ask(conn, sql, "schema/exists")[0][1]:
        return SchemaReport(state="missing", sentence=f"schema {sql.schema} is not there: run fencepost migrate")
    record = applied(conn, sql)
    if changed := changed_files(sql, record):
        return SchemaReport(state="changed", sentence=changed_sentence(sql, changed), names=tuple(changed))
    return (
        _older(sql, record) or _newer(conn, sql, record) or _functions(conn, sql, record) or _indexes(conn, sql, record)
    )


def verify(conn: psycopg.Connection[Any], sql: Catalog) -> SchemaReport:
    """The look before a worker starts. Never migrates.

    Raises SchemaError for a schema that this program cannot run on, UnsupportedDatabaseError for a server that is no
    PostgreSQL, OutageError for one that cannot be written to now. A newer schema that is declared harmless, or an
    index that is invalid or gone, is logged and allowed.
    """
    try:
        platform.require(conn, sql)
        report = check(conn, sql)
    except psycopg.Error as error:
        raise faults.translate(error) from error
    if not report.is_usable:
        raise SchemaError(report.sentence)
    if report.state != "current":
        log.warning("%s", report.sentence)
    return report


def plan_sql(sql: Catalog) -> str:
    """All that `migrate` runs on an empty database, as one text for psql; it writes the record too, so `check` agrees.

    The index builds stand outside transactions. To be run once; `migrate` afterwards finds nothing to do.
    """
    parts = [f"-- fencepost, schema {sql.schema}: run with psql, as the owner-to-be", "\\set ON_ERROR_STOP on"]
    parts.append("\\set ON_ERROR_ROLLBACK off")  # a savepoint per statement would hide what this transaction wrote
    parts.append(f"{sql.statement('schema/prepare')};")
    for file in sql.migrations():
        body = f"{file.text.strip()}\n{_recorded(sql, file, 'migration')}"
        parts.append(f"BEGIN;\n{body}\nCOMMIT;" if file.in_transaction else body)
    functions = [f"{file.text.strip()}\n{_recorded(sql, file, 'function')}" for file in sql.functions()]
    parts += ["BEGIN;", *functions, "COMMIT;"]
    return "\n\n".join(parts) + "\n"


def _recorded(sql: Catalog, file: SqlFile, kind: str) -> str:
    """The statement that records a file, with its values written out: names, words and a checksum of our own."""
    text = sql.statement("schema/record")
    for name, value in record_values(file, kind).items():
        written = str(value).lower() if isinstance(value, bool) else "'" + str(value).replace("'", "''") + "'"
        text = text.replace(f"%({name})s", written)
    return f"{text};"


# -------------------------------------------------------------------------------------------------------- comparing


def _older(sql: Catalog, record: dict[str, Applied]) -> SchemaReport | None:
    missing = [f.name for f in sql.migrations() if f.name not in record and f.header.get("phase") != "contract"]
    if not missing:
        return None
    sentence = (
        f"schema {sql.schema} is older than this program ({', '.join(missing)} is missing): run fencepost migrate"
    )
    return SchemaReport(state="older", sentence=sentence, names=tuple(missing))


def _newer(conn: psycopg.Connection[Any], sql: Catalog, record: dict[str, Applied]) -> SchemaReport | None:
    """A later release was here. It is harmless unless it says otherwise, or has dropped what this program calls."""
    known = {file.name for file in sql.migrations()}
    unknown = [line for line in record.values() if line.kind == "migration" and line.name not in known]
    if not unknown and not any(is_newer(line.program) for line in record.values()):
        return None
    breaking = [line.name for line in unknown if line.breaking]
    gone = missing_functions(conn, sql)
    if breaking or gone:
        because = f"{', '.join(breaking)} breaks older programs" if breaking else f"it no longer has {', '.join(gone)}"
        sentence = f"schema {sql.schema} is too new for this program ({because}): install a newer fencepost here"
        return SchemaReport(state="too new", sentence=sentence, names=tuple(breaking or gone))
    sentence = f"schema {sql.schema} is newer than this program, which can go on with it"
    return SchemaReport(state="newer", sentence=sentence, names=tuple(line.name for line in unknown))


def _functions(conn: psycopg.Connection[Any], sql: Catalog, record: dict[str, Applied]) -> SchemaReport | None:
    stale = [f.name for f in sql.functions() if f.name not in record or record[f.name].checksum != f.checksum]
    if stale:
        sentence = f"schema {sql.schema} has older functions than this program ({_some(stale)}): run fencepost migrate"
        return SchemaReport(state="older", sentence=sentence, names=tuple(stale))
    if gone := missing_functions(conn, sql):
        sentence = f"schema {sql.schema} has lost functions ({_some(gone)}): run fencepost migrate"
        return SchemaReport(state="older", sentence=sentence, names=tuple(gone))
    return None


def _indexes(conn: psycopg.Connection[Any], sql: Catalog, record: dict[str, Applied]) -> SchemaReport:
    own = own_indexes(file for file in sql.migrations() if file.name in record)
    there: dict[str, bool] = dict(ask(conn, sql, "schema/indexes"))
    if invalid := [name for name in own if there.get(name) is False]:
        sentence = f"an index build was cut off and left {', '.join(invalid)} invalid: run fencepost migrate"
        return SchemaReport(state="invalid index", sentence=sentence, names=tuple(invalid))
    if gone := [name for name in own if name not in there]:
        sentence = f"schema {sql.schema} has lost indexes ({_some(gone)}): run fencepost migrate"
        return SchemaReport(state="missing index", sentence=sentence, names=tuple(gone))
    sentence = f"schema {sql.schema} is up to date"
    if foreign := [name for name, valid in there.items() if not valid]:
        sentence += f"; beside it an index build was cut off that was not fencepost's: drop {_some(foreign)}"
    return SchemaReport(state="current", sentence=sentence)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
