"""Read the demo's CSV: every row has a key, and a bad file is refused before anything starts."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from fencepost.errors import UsageError

MOST_ROWS = 100_000
MOST_COLUMNS = 60


@dataclass(frozen=True, slots=True)
class Record:
    """One row of the file: ``key`` is unique in it, ``data`` maps column names to texts."""

    key: str
    data: dict[str, str]


def read_rows(path: Path | None, key: str | None, limit: int | None) -> list[Record]:
    """Read ``path`` (None: the shipped airports), keyed by column ``key`` (None: the first).

    Raises `UsageError` with the line and the column for a file that cannot be used; nothing was started then.
    """
    if path is None:
        text = resources.files("fencepost.demo").joinpath("data/airports.csv").read_text(encoding="utf-8")
        name = "airports.csv"
    else:
        name = str(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise UsageError(f"--csv {name}: cannot be read ({error.strerror}); name a readable CSV file") from None
        except UnicodeDecodeError:
            raise UsageError(f"--csv {name}: is not UTF-8 text; save it as UTF-8") from None
    return _parse(text, name, key, limit)


def _parse(text: str, name: str, key: str | None, limit: int | None) -> list[Record]:
    reader = csv.DictReader(text.splitlines())
    columns = [c for c in (reader.fieldnames or []) if c]
    if not columns or len(columns) > MOST_COLUMNS:
        raise UsageError(f"--csv {name}: the first line must name 1 to {MOST_COLUMNS} columns")
    if len(set(columns)) != len(columns):
        raise UsageError(f"--csv {name}: a column name stands twice in the first line; make them unique")
    key = key or columns[0]
    if key not in columns:
        raise UsageError(f"--key {key}: {name} has no such column; it has {', '.join(columns[:10])}")
    found: dict[str, Record] = {}
    for row in reader:
        value = (row.get(key) or "").strip()
        if not value or len(value) > 200:
            raise UsageError(f"--csv {name}, line {reader.line_num}: column {key} must hold 1 to 200 characters")
        if "\0" in "".join(v for v in row.values() if isinstance(v, str)):
            raise UsageError(f"--csv {name}, line {reader.line_num}: holds a NUL character, which no database stores")
        if value in found:
            raise UsageError(
                f"--csv {name}, line {reader.line_num}: {key} {value!r} stands twice; choose a --key that is unique"
            )
        found[value] = Record(value, {c: (row.get(c) or "")[:500] for c in columns})
        if limit is not None and len(found) >= limit:
            break
        if len(found) > MOST_ROWS:
            raise UsageError(f"--csv {name}: has more than {MOST_ROWS:,} rows; use --rows to take the first ones")
    if not found:
        raise UsageError(f"--csv {name}: has no rows under its first line")
    return list(found.values())
