"""The figures as Markdown, with what has to be known beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_RATE, _CPU = ("jobs/s", "jobs_per_s"), ("CPU s per 10k", "cpu_s_per_10k")
_UNITS = {"drain": _RATE, "defaults": _RATE, "enqueue": _RATE, "latency": ("p50 ms", "p50_ms")}
_MORE = {"drain": _CPU, "defaults": _CPU, "latency": ("p99 ms", "p99_ms")}


def markdown(figures: Mapping[str, Any]) -> str:
    """A table for each discipline, then settings, what each peer does not do, and which could not be asked."""
    return "\n".join([*_head(figures), *_tables(figures), *_peers(figures), *_absent(figures["absent"]), ""])


def _head(figures: Mapping[str, Any]) -> Iterator[str]:
    machine = figures["machine"]
    settings = ", ".join(f"{name} = {value}" for name, value in machine["settings"].items())
    yield "# fencepost and its peers"
    yield ""
    yield (
        f"{machine['cores']} cores, {machine['machine']}, load {machine['load']} at the beginning; PostgreSQL "
        f"{machine['postgresql']} ({settings}); Python {machine['python']}, psycopg {machine['psycopg']}, Redis "
        f"{machine['redis']}; fencepost {machine['fencepost']}."
    )
    yield (
        f"Rounds: {figures['options']['rounds']}, each system once in each. Medians, with the least and the most in brackets; "
        "the ratio to fencepost is taken within each round. One worker process each, its start outside of the clock."
    )


def _tables(figures: Mapping[str, Any]) -> Iterator[str]:
    for discipline, systems in figures["disciplines"].items():
        unit, what = _UNITS[discipline]
        more = _MORE.get(discipline)
        heads = ["system", unit, "to fencepost", *([more[0]] if more else []), "note"]
        yield from ("", f"## {_title(discipline, figures['options'])}", "", _row(heads), _row(["---"] * len(heads)))
        for name, found in systems.items():
            cells = [name, _spread(found.get(what)), _spread(found.get("to_fencepost"), 2)]
            if more:
                cells.append(_spread(found.get(more[1]), 2))
            yield _row([*cells, _note(found)])


def _title(discipline: str, options: Mapping[str, Any]) -> str:
    if discipline in {"drain", "defaults"}:
        how = "at the best settings" if discipline == "drain" else "at the defaults of each"
        return f"drain of {options['jobs']:,} jobs that do nothing, {how}, at most {options['window_s']:g} s; more is faster"
    if discipline == "enqueue":
        return f"enqueue of {options['bulk']:,} jobs by the fastest call; more is faster"
    return f"latency of {options['singles']:,} single jobs, enqueue call to first line; less is faster"


def _note(found: Mapping[str, Any]) -> str:
    words = []
    if "fewer" in found:
        words.append(f"{found['jobs']['median']:,.0f} jobs")
    if "failed" in found:
        words.append(f"failed: {found['failed']}")
    return "; ".join(words)


def _peers(figures: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", "## How each was driven, and what it does not do for its speed", "")
    ours = figures["fencepost"]
    yield f"- **fencepost**: best `{json.dumps(ours['best'])}`; default: nothing is set. {ours['does']}"
    for name, peer in figures["peers"].items():
        default = peer["default"] if isinstance(peer["default"], str) else f"`{json.dumps(peer['default'])}`"
        yield (
            f"- **{name}** {peer['version']} ({peer['title']}): best `{json.dumps(peer['best'])}` ({peer['settings_from']}); "
            f"default: {default}. Bulk: {peer['bulk']}. Done means: {peer['evidence']}."
        )
        yield from (f"  - {one}" for one in peer["not_done"])


def _absent(absent: Mapping[str, str]) -> Iterator[str]:
    if absent:
        yield from ("", "## Not measured", "", *(f"- **{name}**: {reason}" for name, reason in absent.items()))


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _spread(value: Mapping[str, float] | None, digits: int | None = None) -> str:
    if value is None:
        return "-"
    least_digits = digits if digits is not None else (0 if value["median"] >= 100 else 2)
    median, least, most = (f"{value[name]:,.{least_digits}f}" for name in ("median", "least", "most"))
    return f"{median} ({least} to {most})"
