"""The command: ``make bench-peers ARGS="--only pgqueuer,celery --rounds 3 --json FILE"``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from fencepost.bench.ground import Ground, ground
from fencepost.bench.sides import Reading
from peers import environments, ours
from peers.catalogue import ABSENT, PEERS
from peers.facts import Mode, Peer
from peers.paper import markdown
from peers.places import Broker, Databases, broker
from peers.rounds import OURS, Discipline, Figures, System, measure
from peers.theirs import Driven

DISCIPLINES = ("drain", "defaults", "enqueue", "latency")
_DOES = (
    "Every job has a fence, a lease, an outcome of its own and its history row; arguments are typed, two middlewares and an "
    "observer run."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``jobs`` are drained within ``window_s``, ``bulk`` enqueued at once, ``singles`` sent at ``per_s`` a second."""

    rounds: int
    jobs: int
    window_s: float
    bulk: int
    singles: int
    per_s: float


def run(options: Options, peers: tuple[Peer, ...], disciplines: tuple[str, ...], python: str | None) -> dict[str, Any]:
    """Install, measure; the figures as JSON has them. Peers that cannot be had are named with the reason."""
    with ground(None) as place, broker() as redis:
        there, absent = installed(peers, python, has_redis=redis is not None)
        facts = place.facts() | {"redis": redis.version if redis else "none"}
        driven = [_driven(peer, place, redis) for peer in there]
        made = {"drain": _drains, "defaults": _defaults, "enqueue": _enqueues, "latency": _latencies}
        tables = [made[name](place, driven, options) for name in disciplines]
        measure(tables, options.rounds)
    return {
        "bench": "peers",
        "machine": facts,
        "options": {name: getattr(options, name) for name in Options.__slots__},
        "disciplines": {table.name: table.as_json() for table in tables},
        "fencepost": {**ours.SETTINGS, "does": _DOES},
        "peers": {peer.name: peer.as_json() for peer in there},
        "absent": absent | ABSENT,
    }


def installed(peers: tuple[Peer, ...], python: str | None, *, has_redis: bool) -> tuple[list[Peer], dict[str, str]]:
    """Those that are there now, and of the others why not."""
    there: list[Peer] = []
    absent: dict[str, str] = {}
    for peer in peers:
        if reason := _hindrance(peer, python, has_redis=has_redis):
            absent[peer.name] = reason
        else:
            there.append(peer)
        print(f"{peer.name}: {reason or 'installed'}", file=sys.stderr, flush=True)
    return there, absent


def _hindrance(peer: Peer, python: str | None, *, has_redis: bool) -> str | None:
    if peer.server == "redis" and not has_redis:
        return "redis-server and redis-cli are not there"
    try:
        environments.install(peer, python=python)
    except environments.NotInstalledError as error:
        return str(error)
    return None


def _driven(peer: Peer, place: Ground, redis: Broker | None) -> Driven:
    if peer.server == "redis":
        assert redis is not None
        return Driven(peer, redis)
    return Driven(peer, Databases(place))


def _drains(place: Ground, driven: list[Driven], options: Options) -> Discipline:
    bare = System("bare SQL", lambda: _rate(ours.bare_drain(place, options.jobs), options.jobs))
    return Discipline("drain", "jobs_per_s", [bare, *_drain("best", ours.BEST, place, driven, options)])


def _defaults(place: Ground, driven: list[Driven], options: Options) -> Discipline:
    return Discipline("defaults", "jobs_per_s", _drain("default", (), place, driven, options))


def _drain(mode: Mode, words: tuple[str, ...], place: Ground, driven: list[Driven], options: Options) -> list[System]:
    def one(of: Driven) -> Figures:
        return _rate(of.drain(mode, options.jobs, options.window_s), options.jobs)

    mine = System(OURS, lambda: _rate(ours.drain(place, options.jobs, words), options.jobs))
    return [mine, *(System(of.peer.name, partial(one, of)) for of in driven)]


def _enqueues(place: Ground, driven: list[Driven], options: Options) -> Discipline:
    def one(of: Driven) -> Figures:
        return _rate(of.enqueue(min(options.bulk, of.peer.bulk_at_most)), options.bulk)

    mine = System(OURS, lambda: _rate(ours.enqueue(place, options.bulk), options.bulk))
    return Discipline("enqueue", "jobs_per_s", [mine, *(System(of.peer.name, partial(one, of)) for of in driven)])


def _latencies(place: Ground, driven: list[Driven], options: Options) -> Discipline:
    def one(of: Driven) -> Figures:
        return of.latency(options.singles, options.per_s)

    mine = System(OURS, lambda: ours.wait(place, options.singles, options.per_s))
    return Discipline("latency", "p50_ms", [mine, *(System(of.peer.name, partial(one, of)) for of in driven)])


def _rate(reading: Reading, wanted: int) -> Mapping[str, float]:
    found: dict[str, float] = {"jobs_per_s": reading.per_s, "jobs": reading.jobs, "seconds": reading.seconds}
    if reading.jobs < wanted:
        found["fewer"] = 1
    if reading.cpu_s_per_10k is not None:
        found["cpu_s_per_10k"] = reading.cpu_s_per_10k
    return found


def _chosen(_context: Any, _parameter: Any, value: str | None) -> tuple[Peer, ...]:
    if value is None:
        return PEERS
    names = value.split(",")
    known = {peer.name: peer for peer in PEERS}
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(known)}")
    return tuple(known[name] for name in names)


@click.command()
@click.option("--only", "peers", callback=_chosen, metavar="NAMES", help="Peers, with commas between; all without it.")
@click.option("--discipline", "disciplines", multiple=True, type=click.Choice(DISCIPLINES), help="All without it.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="How often to measure.")
@click.option("--jobs", type=click.IntRange(100), default=20_000, show_default=True, help="Jobs to drain.")
@click.option("--window-s", type=click.FloatRange(1), default=10.0, show_default=True, help="A drain is cut then.")
@click.option("--bulk", type=click.IntRange(100), default=20_000, show_default=True, help="Jobs to enqueue at once.")
@click.option("--singles", type=click.IntRange(20), default=100, show_default=True, help="Jobs to time one by one.")
@click.option("--per-s", type=click.FloatRange(0.1), default=20.0, show_default=True, help="Single jobs a second.")
@click.option("--json", "as_json", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures there.")
@click.option("--python", help="A newer Python for peers that need one.")
@click.option("--install-only", is_flag=True, help="Install the peers and say which are there.")
def main(
    *,
    peers: tuple[Peer, ...],
    disciplines: tuple[str, ...],
    as_json: Path | None,
    python: str | None,
    install_only: bool,
    **options: Any,
) -> None:
    """The same work by fencepost and its peers, in turn, round after round; prints Markdown."""
    if install_only:
        installed(peers, python, has_redis=True)
        return
    figures = run(Options(**options), peers, disciplines or DISCIPLINES, python)
    if as_json is not None:
        as_json.write_text(json.dumps(figures, indent=1) + "\n")
    print(markdown(figures))


if __name__ == "__main__":
    main()
