"""Reads the SQL files, checks their headers, and fills in the schema's name: the only thing that is ever filled in.

Values are always parameters. ``{schema}`` is replaced by plain text replacement, after the name has passed a pattern
that needs no quoting, since plpgsql is full of braces of its own.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable

from fencepost.errors import UsageError

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_HEADER = re.compile(r"--\s*([a-z]+):\s*(.*)")
_INDEX = re.compile(
    r"^((CREATE|DROP)\s+INDEX)\s+(?:CONCURRENTLY\s+)?(?:IF\s+(?:NOT\s+)?EXISTS\s+)?(?:[a-z0-9_]+\.)?([a-z0-9_]+)\s*([^;]*);",
    re.IGNORECASE | re.MULTILINE,
)
_BREAKPOINT = re.compile(r"^(\s*)-- breakpoint: ([a-z_0-9.]+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SqlFile:
    """One file: ``name`` without its ending, ``text`` with the schema filled in, ``header`` from its first comments."""

    name: str
    text: str
    header: dict[str, str] = field(default_factory=dict)
    schema: str = "fencepost"

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def in_transaction(self) -> bool:
        """Whether it runs inside one transaction (CREATE INDEX CONCURRENTLY cannot)."""
        return self.header.get("transaction", "yes") != "no"

    @property
    def breaking(self) -> bool:
        """Whether a program that does not know this file must not run any more."""
        return self.header.get("breaking", "no") == "yes"

    def statements(self) -> list[str]:
        """Its statements one by one, for a file outside a transaction (none of them holds a semicolon inside)."""
        lines = [line for line in self.text.splitlines() if not line.startswith("--")]
        return [part.strip() for part in "\n".join(lines).split(";") if part.strip()]

    def indexes(self) -> dict[str, str | None]:
        """The indexes that it leaves, and those that it takes away for good (None).

        Each with the file's own statement, made to build without blocking a writer whatever the file does.
        """
        found: dict[str, str | None] = {}
        for begin, verb, name, rest in _INDEX.findall(self.text):
            builds = verb.upper() == "CREATE"
            found[name.lower()] = f"{begin} CONCURRENTLY IF NOT EXISTS {name} {rest}" if builds else None
        return found


class Catalog:
    """The SQL of one schema. Cheap to make; reads each file once.

    ``breakpoints=True`` is for test builds: the marked lines inside functions call ``{schema}.breakpoint(name)``.
    Raises `UsageError` for a schema name that would need quoting.
    """

    def __init__(self, schema: str = "fencepost", *, breakpoints: bool = False) -> None:
        if not _NAME.fullmatch(str(schema)) or schema.startswith("pg_"):
            message = (
                f"schema must be a lower-case name of letters, digits and underscores, at most 63, not {schema!r}; "
                "choose another one"
            )
            raise UsageError(message)
        self.schema = schema
        self._breakpoints = breakpoints
        self._statements: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Catalog({self.schema!r})"

    def statement(self, name: str) -> str:
        """The text of ``sql/statements/<name>.sql`` without its header. A wrong name is a `KeyError`."""
        found = self._statements.get(name)
        if found is None:
            path = resources.files("fencepost.sql").joinpath("statements", *f"{name}.sql".split("/"))
            if not path.is_file():
                raise KeyError(name)
            found = self._statements[name] = _without_header(self._fill(path.read_text(encoding="utf-8")))
        return found

    def statement_names(self) -> list[str]:
        """All statements, sorted."""
        root = resources.files("fencepost.sql").joinpath("statements")
        return sorted(f"{room.name}/{file.name[:-4]}" for room in root.iterdir() for file in _sql_files(room))

    def migrations(self) -> list[SqlFile]:
        """The numbered files, in order."""
        return self._folder("migrations")

    def function_names(self) -> list[str]:
        """A file has the name of its function; the one that attaches settings makes none."""
        return [file.name for file in self.functions() if not file.name.startswith("zz_")]

    def functions(self) -> list[SqlFile]:
        """The functions, one operation a file; the file that attaches settings and rights comes last."""
        files = self._folder("functions")
        return sorted(files, key=lambda file: (file.name.startswith("zz_"), not file.name.startswith("_"), file.name))

    def _folder(self, name: str) -> list[SqlFile]:
        root = resources.files("fencepost.sql").joinpath(name)
        return [self._file(path) for path in _sql_files(root)]

    def _file(self, path: Traversable) -> SqlFile:
        text = self._fill(path.read_text(encoding="utf-8"))
        return SqlFile(path.name.removesuffix(".sql"), text, _header(text), self.schema)

    def _fill(self, text: str) -> str:
        text = text.replace("{schema}", self.schema)
        if self._breakpoints:
            text = _BREAKPOINT.sub(rf"\1PERFORM {self.schema}.breakpoint('\2');", text)
        return text


def _sql_files(root: Traversable) -> list[Traversable]:
    return sorted((path for path in root.iterdir() if path.name.endswith(".sql")), key=lambda path: path.name)


def _header(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        if match := _HEADER.fullmatch(line.strip()):
            found[match[1]] = match[2].strip()
    return found


def _without_header(text: str) -> str:
    lines = text.splitlines()
    while lines and (lines[0].startswith("--") or not lines[0].strip()):
        lines.pop(0)
    return "\n".join(lines).strip().rstrip(";")
