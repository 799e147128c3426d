"""How the properties of this room are drawn: the same examples in every run, few enough for a quick suite."""

from __future__ import annotations

from hypothesis import settings

STEADY = settings(derandomize=True, database=None, deadline=None, max_examples=100)
