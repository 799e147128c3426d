"""All mutants."""

from __future__ import annotations

from mutants import programs, storage

ALL = [*storage.ALL, *programs.ALL]
