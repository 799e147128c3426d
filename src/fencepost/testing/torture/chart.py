"""The strip chart of a run: starts, faults and rescues over time, as SVG without any style of its own."""

from __future__ import annotations

from collections import Counter

from fencepost.testing.torture.timelines import Timelines

WIDTH = 1000.0
STRIP = 60.0
GAP = 8.0


def strips(told: Timelines, kinds: list[str]) -> str:
    """Three strips below each other; the page writes beside them what they are."""
    seconds = int(told.seconds) + 1
    drawn = [
        _bars(told.starts, seconds, 0, "starts"),
        _ticks(told, kinds, seconds, STRIP + GAP),
        _bars(told.rescues, seconds, 2 * (STRIP + GAP), "rescues"),
    ]
    height = 3 * STRIP + 2 * GAP
    label = f"starts per second, faults and rescues over {seconds} seconds"
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {height:g}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f"{''.join(drawn)}</svg>"
    )


def _bars(counts: Counter[int], seconds: int, top: float, name: str) -> str:
    most = max(counts.values(), default=1)
    wide = WIDTH / seconds
    bars = [
        f'<rect class="{name}" x="{second * wide:.2f}" y="{top + STRIP * (1 - count / most):.2f}" '
        f'width="{max(wide * 0.9, 1):.2f}" height="{STRIP * count / most:.2f}"/>'
        for second, count in sorted(counts.items())
        if 0 <= second < seconds
    ]
    return _ground(top) + "".join(bars)


def _ticks(told: Timelines, kinds: list[str], seconds: int, top: float) -> str:
    """Each kind has a line of its own; faults that met a running job are full, others faint."""
    high = STRIP / max(len(kinds), 1)
    ticks = [
        f'<rect class="{"met" if fault.met else "missed"}" x="{WIDTH * fault.t / seconds:.2f}" '
        f'y="{top + high * kinds.index(fault.kind):.2f}" width="3" height="{high * 0.85:.2f}"/>'
        for fault in told.faults
        if fault.kind in kinds
    ]
    return _ground(top) + "".join(ticks)


def _ground(top: float) -> str:
    return f'<rect class="ground" x="0" y="{top:g}" width="{WIDTH:g}" height="{STRIP:g}"/>'
