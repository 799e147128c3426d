"""The strip chart of a run: starts, faults and rescues over time, as SVG.

Colours are the page's, by class; those written here are for viewers that do not apply a page's style to drawings.
"""

from __future__ import annotations

from collections import Counter

from fencepost.testing.torture.timelines import Timelines

WIDTH = 1000.0
HEIGHT = 60.0
COLOURS = {"ground": "#e9ecef", "starts": "#2563a8", "rescues": "#8a5300", "met": "#b3141f", "missed": "#8b949e"}


def bars(counts: Counter[int], seconds: int, name: str) -> str:
    """One bar a second."""
    most = max(counts.values(), default=1)
    wide = WIDTH / seconds
    drawn = (
        _box(name, second * wide, HEIGHT * (1 - count / most), max(wide * 0.9, 1), HEIGHT * count / most)
        for second, count in sorted(counts.items())
        if 0 <= second < seconds
    )
    return _strip(name, "".join(drawn))


def ticks(told: Timelines, kinds: list[str], seconds: int) -> str:
    """One tick a fault. Each kind has a line of its own; a fault that met no running job is faint."""
    high = HEIGHT / max(len(kinds), 1)
    drawn = (
        _box("met" if one.met else "missed", WIDTH * one.t / seconds, high * kinds.index(one.kind), 3, high * 0.85)
        for one in told.faults
        if one.kind in kinds
    )
    return _strip("faults", "".join(drawn))


def _strip(name: str, drawn: str) -> str:
    size = f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}" preserveAspectRatio="none"'
    return f'<svg {size} role="img" aria-label="{name} over time">{_box("ground", 0, 0, WIDTH, HEIGHT)}{drawn}</svg>'


def _box(name: str, x: float, y: float, width: float, height: float) -> str:
    place = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
    return f'<rect class="{name}" fill="{COLOURS[name]}" {place}/>'
