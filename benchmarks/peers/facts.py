"""What has to be said of a peer before a figure of it may be shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

ADAPTERS = Path(__file__).parent / "adapters"

Mode = Literal["best", "default"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One system, how it is installed and driven, and what its speed is bought with.

    ``best`` and ``default`` are handed to the adapter as they are: what is printed is what was used. ``left`` counts the
    jobs that are not finished, in the peer's own tables; without it the handler's own count is the evidence. ``gate``: the
    tables that are locked until the worker has started and waits for them.
    """

    name: str
    title: str
    adapter: str
    packages: tuple[str, ...]
    tool: Literal["pip", "npm"] = "pip"
    python: tuple[int, int] = (3, 11)
    server: Literal["postgresql", "redis"] = "postgresql"
    best: Mapping[str, Any]
    default: Mapping[str, Any] = field(default_factory=dict)
    settings_from: str
    bulk: str
    evidence: str
    left: str | None = None
    gate: tuple[str, ...] = ()
    not_done: tuple[str, ...]
    bulk_at_most: int = 100_000

    @property
    def version(self) -> str:
        """Of its first package."""
        return re.sub(r"\[.*\]", "", self.packages[0]).rpartition("@" if self.tool == "npm" else "==")[2]

    def settings(self, mode: Mode) -> Mapping[str, Any]:
        """What the adapter is told."""
        return self.best if mode == "best" else self.default

    def as_json(self) -> dict[str, Any]:
        """Everything that a reader of its figures needs."""
        return {
            "title": self.title,
            "version": self.version,
            "packages": list(self.packages),
            "server": self.server,
            "best": dict(self.best),
            "default": dict(self.default) or "nothing is set",
            "settings_from": self.settings_from,
            "bulk": self.bulk,
            "evidence": self.evidence,
            "not_done": list(self.not_done),
        }
