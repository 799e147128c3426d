"""A mutant: the product, wrong in one place; and the patched copy in which it lives."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).parents[2]
SOURCE = TOP / "src"


class Stale(Exception):  # noqa: N818 - says what it is
    """The text that a mutant replaces is no longer there exactly once: write the mutant anew."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """``right`` stands exactly once in ``file`` (below ``src/fencepost``) and becomes ``wrong``.

    ``killer`` is the test that must fail, by its node; ``{pg}`` in it is a server that this machine has.
    ``gate``: one of the eight that `make mutants ARGS=--gate` takes. ``by``: an error of the server that is a verdict too,
    because the product must not meet it there.
    """

    name: str
    file: str
    right: str
    wrong: str
    killer: str
    gate: bool = False
    by: str = ""

    @property
    def path(self) -> Path:
        return SOURCE / "fencepost" / self.file

    @property
    def harness(self) -> str:
        """Where its killer lives."""
        return self.killer.split("/")[1]

    def patched(self) -> str:
        """The text of its file, broken. Raises Stale."""
        text = self.path.read_text(encoding="utf-8")
        count = text.count(self.right)
        if count != 1:
            message = f"{self.name}: its text stands {count} times in {self.file}: write the mutant anew"
            raise Stale(message)
        return text.replace(self.right, self.wrong)


SENTINEL = """

def _say_who_imports() -> None:
    import os
    import sys

    line = " ".join(sys.orig_argv[1:3]) or sys.executable
    with open({heard!r}, "a") as file:
        file.write(line + chr(10))


_say_who_imports()
"""
"""Added to the package's own module in every copy: whoever imports the copy says so."""


class Copy:
    """The sources in a folder of their own, whole or with one mutant in them."""

    def __init__(self, folder: Path, mutant: Mutant | None = None) -> None:
        self.source = folder / "src"
        self.heard = folder / "imported-by"
        shutil.copytree(SOURCE, self.source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        if mutant is not None:
            (self.source / "fencepost" / mutant.file).write_text(mutant.patched(), encoding="utf-8")
        with (self.source / "fencepost/__init__.py").open("a", encoding="utf-8") as file:
            file.write(SENTINEL.format(heard=str(self.heard)))

    def importers(self) -> list[str]:
        """The first words of the command of every process that imported this copy."""
        return self.heard.read_text(encoding="utf-8").splitlines() if self.heard.exists() else []
