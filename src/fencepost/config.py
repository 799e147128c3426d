"""Configuration from the environment. Nothing else in fencepost reads it.

    FENCEPOST_DSN           where the database is: postgresql://user@host/name or "host=... dbname=..."
    FENCEPOST_DIRECT_DSN    the same past a transaction pooler, for migrations
    FENCEPOST_SCHEMA        the schema of fencepost's tables ("fencepost")
    FENCEPOST_APP           module:attribute of the App, for the commands
    FENCEPOST_PG_BIN        folder of postgres and initdb for the embedded server (read by `fencepost.embedded.binaries`)
    FENCEPOST_QUEUES        "default" or "mail=8,reports=2": names with slots
    FENCEPOST_SLOTS, FENCEPOST_PROCESSES, FENCEPOST_HEARTBEAT_INTERVAL, FENCEPOST_HEARTBEAT_TTL,
    FENCEPOST_POLL_INTERVAL, FENCEPOST_SHUTDOWN_TIMEOUT, FENCEPOST_ON_OUTAGE, FENCEPOST_NOTIFY, FENCEPOST_FAIR    the
    worker's options

Arguments of a call and flags of a command come before the environment. An empty variable counts as not set.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from fencepost.domain.durations import seconds
from fencepost.domain.redact_live import passwords_in, secrets_in
from fencepost.errors import UsageError

_YES, _NO = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the environment says. ``worker`` holds only the options that are set, with their types."""

    dsn: str | None = None
    direct_dsn: str | None = None
    schema: str | None = None
    app: str | None = None
    worker: Mapping[str, Any] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        dsn = "set" if self.dsn else None
        return f"<Config app={self.app!r} schema={self.schema!r} dsn={dsn} worker={dict(self.worker)!r}>"


def from_env(environ: Mapping[str, str] | None = None) -> Config:
    """Read the environment (or ``environ``). UsageError, naming the variable, for a value that cannot be meant."""
    found = {
        name: value.strip() for name, value in (os.environ if environ is None else environ).items() if value.strip()
    }
    return Config(
        dsn=_dsn("FENCEPOST_DSN", found.get("FENCEPOST_DSN")),
        direct_dsn=_dsn("FENCEPOST_DIRECT_DSN", found.get("FENCEPOST_DIRECT_DSN")),
        schema=found.get("FENCEPOST_SCHEMA"),
        app=found.get("FENCEPOST_APP"),
        worker={
            option: _read(f"FENCEPOST_{option.upper()}", read, found[f"FENCEPOST_{option.upper()}"])
            for option, read in WORKER_OPTIONS.items()
            if f"FENCEPOST_{option.upper()}" in found
        },
        secrets=secrets_in(found),
    )


def check_dsn(where: str, dsn: str) -> str:
    """``dsn`` if libpq can read it. The message of the UsageError names ``where`` and never shows the DSN."""
    if not isinstance(dsn, str):
        raise UsageError(f"{where} must be text such as postgresql://user@host/name, not {type(dsn).__name__}")
    if not dsn.strip():  # a variable that was not set, most likely; libpq would take whatever database is near
        raise UsageError(
            f"{where} is empty; write postgresql:// if you mean the database that PGHOST and the like name"
        )
    scheme = dsn.partition("://")[0] if "://" in dsn else ""
    if "+" in scheme:
        raise UsageError(
            f"{where} begins with {scheme}://; fencepost needs it without the driver: {scheme.partition('+')[0]}://"
        )
    try:
        known = conninfo_to_dict(dsn)
    except ProgrammingError:  # libpq's text may quote the password
        message = (
            f'{where} is no PostgreSQL connection string; write postgresql://user@host/name or "host=... dbname=..."'
        )
        raise UsageError(message) from None
    if _has_bare_at(dsn):  # libpq takes half of the password for the host or the database, and would show it
        raise UsageError(f"{where} cannot be read for sure: percent-encode its password (@ is %40, / is %2F)")
    for port in str(known.get("port") or "").split(","):
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise UsageError(
                f"{where} has a port that is no number from 1 to 65535"
            )  # not shown: it may be half a password
    return dsn


def _has_bare_at(dsn: str) -> bool:
    """Is there an ``@`` after the one that libpq ends the password with, or a slash before it?"""
    _, scheme, rest = dsn.partition("://")
    if not scheme or not dsn.startswith("postgres"):
        return False
    authority, _, path = rest.partition("/")
    _, at, after = authority.partition("@")
    host = after if at else authority
    return "@" in host.partition("?")[0] or "@" in ("" if "?" in host else path.partition("?")[0])


def _dsn(variable: str, value: str | None) -> str | None:
    return None if value is None else check_dsn(variable, value)


def _read(variable: str, read: Callable[[str], Any], value: str) -> Any:
    try:
        return read(value)
    except (UsageError, ValueError) as error:
        raise UsageError(f"{variable}: {error}") from None


def _whole(value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UsageError(f"must be a whole number, not {value!r}") from None


def _switch(value: str) -> bool:
    if value.lower() in _YES:
        return True
    if value.lower() in _NO:
        return False
    raise UsageError(f"must be yes or no, not {value!r}")


def _queues(value: str) -> dict[str, int] | list[str]:
    parts = [part.strip() for part in value.split(",") if part.strip()]
    names = [part.partition("=")[0].strip() for part in parts]
    if len(set(names)) != len(names):
        raise UsageError("names a queue twice")
    if not any("=" in part for part in parts):
        return names
    return {part.partition("=")[0].strip(): _whole(part.partition("=")[2].strip() or "1") for part in parts}


def _one_of(*words: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in words:
            raise UsageError(f"must be {' or '.join(words)}, not {value!r}")
        return value

    return read


WORKER_OPTIONS: dict[str, Callable[[str], Any]] = {
    "queues": _queues,
    "slots": _whole,
    "processes": _whole,
    "heartbeat_interval": seconds,
    "heartbeat_ttl": seconds,
    "poll_interval": seconds,
    "shutdown_timeout": seconds,
    "on_outage": _one_of("exit", "stay"),
    "notify": _switch,
    "fair": _switch,
}
"""Worker option to how its variable's text is read."""


def secrets_of_env() -> tuple[str, ...]:
    """Values of this process's environment that must never be stored or logged."""
    return secrets_in(os.environ)


def passwords_of(dsn: str) -> set[str]:
    """The passwords inside a DSN, as libpq reads them and as they are written, if long enough to be searched for."""
    found = passwords_in(dsn)
    with contextlib.suppress(ProgrammingError):
        known = conninfo_to_dict(dsn)
        found |= {str(known[name]) for name in ("password", "sslpassword") if len(str(known.get(name) or "")) >= 6}
    return found


def direct_dsn_of(dsn: str) -> str:
    """The way past a transaction pooler to the database of ``dsn``; ``dsn`` itself without one.

    FENCEPOST_DIRECT_DSN belongs to FENCEPOST_DSN. Where that is not set, it is believed to be meant for ``dsn`` if it
    names the same database: with a DSN of one database, nothing may happen to another.
    """
    direct = _dsn("FENCEPOST_DIRECT_DSN", os.environ.get("FENCEPOST_DIRECT_DSN", "").strip() or None)
    if direct is None:
        return dsn
    pooled = os.environ.get("FENCEPOST_DSN", "").strip()
    belongs = pooled == dsn if pooled else _database(direct) == _database(dsn)
    return direct if belongs else dsn


def _database(dsn: str) -> Any:
    known = conninfo_to_dict(dsn)
    return known.get("dbname") or known.get("user")
