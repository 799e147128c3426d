"""How data is printed: aligned columns, rich tables on a terminal that has rich, or JSON."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import click

_WIDE = 60
"""Characters of one cell on paper; ``--json`` has all of it."""

_LONG = 2_000
"""Characters of one fact on paper."""


def plain(value: Any) -> Any:
    """What JSON can hold: dataclasses as objects, times as ISO 8601 in UTC, durations as seconds."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no word for it, and a strict reader would refuse the whole document
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=not _unicode())
    click.echo("\n".join(map(_escaped, text.split("\n"))))


def print_table(heads: Sequence[str], rows: Sequence[Sequence[Any]], *, empty: str) -> None:
    """A table, or the sentence ``empty`` when there are no rows."""
    if not rows:
        click.echo(empty)
        return
    cells = [[_cell(value) for value in row] for row in rows]
    if sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
        _rich_table(heads, cells)
    else:
        click.echo(aligned(heads, cells))


def print_facts(facts: Sequence[tuple[str, Any]]) -> None:
    """Name and value, one a line; None is left out."""
    shown = [(name, _cell(value, _LONG)) for name, value in facts if value is not None]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        click.echo(f"{name:<{width}}  {value}")


def aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, numbers to the right."""
    right = [
        all(row[at].replace(",", "").lstrip("-").isdigit() or row[at] == "-" for row in rows)
        for at in range(len(heads))
    ]
    widths = [max(len(str(line[at])) for line in (heads, *rows)) for at in range(len(heads))]
    return "\n".join(
        "  ".join(
            f"{text:>{w}}" if r else f"{text:<{w}}" for text, w, r in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in (heads, *rows)
    )


def when(moment: datetime | None, now: datetime | None = None) -> str:
    """``2026-11-30 12:00:01 (3 min ago)`` in local time; ``-`` for none."""
    if moment is None:
        return "-"
    distance = ((now or datetime.now(UTC)) - moment).total_seconds()
    words = f"{lasting(distance)} ago" if distance >= 0 else f"in {lasting(-distance)}"
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S} ({words})"


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """``3 min ago`` or ``in 3 min``."""
    if moment is None:
        return "-"
    distance = ((now or datetime.now(UTC)) - moment).total_seconds()
    return f"{lasting(distance)} ago" if distance >= 0 else f"in {lasting(-distance)}"


def lasting(seconds: float | None) -> str:
    """A duration in one or two units."""
    if seconds is None:
        return "-"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def printable(text: str, limit: int = _LONG) -> str:
    """One line of at most so many characters; control characters as escapes, so that no stored text paints the terminal."""
    head = text[: limit + 1]  # before it is looked at character by character: it may be of any size
    if not head.isprintable():
        head = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in head)
    return head if len(head) <= limit else head[: limit - 1] + "…"


def _escaped(line: str) -> str:
    """A line of JSON with what a terminal would obey as escapes; only texts can hold it."""
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in line)


def _cell(value: Any, limit: int = _WIDE) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return when(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(
        f"{value:,}" if isinstance(value, int) else str(value.value if isinstance(value, Enum) else value), limit
    )


def _rich_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console().print(table)


_STYLES = {
    "failed": "red",
    "lost": "red",
    "in_doubt": "magenta",
    "running": "cyan",
    "succeeded": "green",
    "retrying": "yellow",
}


def _unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
