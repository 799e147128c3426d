"""What an error of the database, the driver or the socket means.

Judged by SQLSTATE (PostgreSQL, appendix A) and never by the driver's base classes: psycopg puts a deadlock and a syntax
error under the same roof. A connection that breaks without a word has no SQLSTATE; that is an outage.

    transient      08 connection, 53 resources, 57 operator intervention, 58 system, 40 rolled back, 25006 read-only after a
                   failover, 25P03 and 25P04 the server ended an idle or a long transaction, 55P03 lock timeout, 26000
                   and 42P05 a pooler that mislaid a prepared statement
    schema         3F000, 42P01, 42883, 42703, 42704: fencepost's tables or functions are not (all) there
    bad data       22, 23, 54: what PostgreSQL cannot hold; without a code, what the driver could not even send
"""

from __future__ import annotations

import psycopg

from fencepost.domain.redact import Redactor
from fencepost.errors import DatabaseError, FencepostError, OutageError, SchemaError, UsageError

_TRANSIENT_CLASSES = frozenset({"08", "40", "53", "57", "58"})
_TRANSIENT = frozenset({"25006", "25P03", "25P04", "55P03", "26000", "42P05"})
_MISLAID = frozenset({"26000", "42P05"})
_BROKEN_CLASSES = frozenset({"08"})
_BROKEN = frozenset({"25006", "25P03", "25P04", "26000", "42P05", "57P01", "57P02", "57P03", "57P04", "57P05"})
_NO_SCHEMA = frozenset({"3F000", "42P01", "42883", "42703", "42704"})
_BAD_DATA_CLASSES = frozenset({"22", "23", "54"})
_FORBIDDEN = "42501"
_LIMIT = 400

_redactor = Redactor()


def sqlstate(error: BaseException) -> str | None:
    """The five characters, if the server gave any."""
    return error.sqlstate if isinstance(error, psycopg.Error) else None


def is_transient(error: BaseException) -> bool:
    """Whether the same call may work later (SPEC W4)."""
    if isinstance(error, FencepostError):
        return isinstance(error, OutageError)
    state = sqlstate(error)
    if state is not None:
        return state[:2] in _TRANSIENT_CLASSES or state in _TRANSIENT
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return True
    return isinstance(error, OSError)


def needs_reconnect(error: BaseException) -> bool:
    """Whether the connection is of no use any more: broken, closed by us, or to a server that became read-only."""
    if isinstance(error, FencepostError):
        return isinstance(error, OutageError)
    state = sqlstate(error)
    if state is not None:
        return state[:2] in _BROKEN_CLASSES or state in _BROKEN
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError)


def is_stale_plan(error: BaseException) -> bool:
    """Whether a prepared statement's plan no longer fits its function or table, after a migration (review B11).

    Told by the code alone: the server's words ("cached plan must not change result type") may be in any language.
    """
    return sqlstate(error) == "0A000"


def is_mislaid_statement(error: BaseException) -> bool:
    """Whether a pooler gave us a server connection that does not know our prepared statement, or has its name taken."""
    return sqlstate(error) in _MISLAID


def is_lock_timeout(error: BaseException) -> bool:
    """Whether a row was locked for longer than lock_timeout: of a repeated outcome it means "in flight"."""
    return sqlstate(error) == "55P03"


def is_bad_data(error: BaseException) -> bool:
    """Whether the values themselves were refused, by the server or before they were sent."""
    if isinstance(error, UnicodeEncodeError):
        return True
    state = sqlstate(error)
    if state is None:
        return isinstance(error, psycopg.DataError)
    return state[:2] in _BAD_DATA_CLASSES


def explain(error: BaseException) -> str:
    """One line for logs and people: what the server said, without secrets."""
    text = ""
    if isinstance(error, psycopg.Error):
        text = error.diag.message_primary or ""
    text = " ".join((text or str(error) or type(error).__name__).split())
    text = _redactor.text(text)
    if len(text) > _LIMIT:
        text = text[: _LIMIT - 1] + "…"
    state = sqlstate(error)
    return f"{text} ({state})" if state else text


def translate(error: BaseException) -> FencepostError:
    """The error of ours that says it best. Ours come back as they are."""
    if isinstance(error, FencepostError):
        return error
    if is_transient(error):
        return OutageError(explain(error))
    if isinstance(error, UnicodeEncodeError) and error.encoding.lower().replace("-", "") != "utf8":
        return UsageError(f"the connection's client_encoding ({error.encoding}) cannot carry this text: use UTF8")
    if is_bad_data(error):
        return UsageError(f"PostgreSQL cannot hold these values: {explain(error)}")
    state = sqlstate(error)
    if state in _NO_SCHEMA:
        return SchemaError(
            "fencepost's schema is missing or of another release: run fencepost migrate, "
            f"or, if it is newer than this program, install a newer fencepost ({explain(error)})"
        )
    if state == _FORBIDDEN:
        return DatabaseError(f"this database role may not do that, grant it: {explain(error)}")
    return DatabaseError(explain(error))
