"""Live progress: bars on a terminal, plain lines elsewhere; and the table at the end."""

from __future__ import annotations

import importlib.util
import sys
import time
from dataclasses import dataclass
from typing import Any, Protocol

from fencepost.demo.proof import Proof


@dataclass(slots=True)
class Moment:
    """What is known at one look."""

    rows: int
    of_rows: int
    done: dict[str, int]
    running: int
    attempts_failed: int
    note: str = ""


class Display(Protocol):
    """Shows moments and events while the demo runs."""

    def show(self, moment: Moment) -> None:
        """Show where the run stands."""

    def say(self, sentence: str) -> None:
        """Tell an event."""

    def close(self) -> None:
        """End the live part."""


TASKS = {"demo.register": "webhooks", "demo.announce": "e-mails", "demo.render": "reports"}


class Plain:
    """One line every two seconds, and one for each event; for pipes, logs and dumb terminals."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._next = 0.0

    def show(self, moment: Moment) -> None:
        """Print a line if two seconds have passed since the last."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + 2.0
        done = ", ".join(f"{moment.done.get(task, 0):,} {name}" for task, name in TASKS.items())
        self._print(f"{moment.rows:,} of {moment.of_rows:,} rows; done: {done}; running {moment.running}")

    def say(self, sentence: str) -> None:
        """Print the event."""
        self._print(sentence)

    def close(self) -> None:
        """Nothing to end."""

    def _print(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:6.1f} s] {text}", flush=True)


class Live:
    """Bars that move, with the events above them (rich)."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description:<10}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[more]}"), console=Console(),
        )  # fmt: skip
        self._bars: dict[str, Any] = {}
        self._progress.start()

    def show(self, moment: Moment) -> None:
        """Move the bars."""
        figures = {"rows": moment.rows} | {name: moment.done.get(task, 0) for task, name in TASKS.items()}
        for name, value in figures.items():
            if name not in self._bars:
                self._bars[name] = self._progress.add_task(name, total=moment.of_rows, more="")
            more = f"running {moment.running}" if name == "rows" else ""
            self._progress.update(self._bars[name], completed=value, more=more)

    def say(self, sentence: str) -> None:
        """Print the event above the bars."""
        self._progress.console.print(f"[bold]•[/bold] {sentence}", highlight=False)

    def close(self) -> None:
        """Leave the bars as they stand."""
        self._progress.stop()


def display(quiet: bool) -> Display:
    """The display that fits where we print."""
    if not quiet and sys.stdout.isatty() and importlib.util.find_spec("rich"):
        return Live()
    return Silent() if quiet else Plain()


class Silent:
    """For ``--json``: nothing but the result."""

    def show(self, moment: Moment) -> None:
        """Nothing."""

    def say(self, sentence: str) -> None:
        """Tell it on stderr, where it disturbs no reader of the JSON."""
        print(sentence, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Nothing to end."""


def table(proof: Proof, seconds: float, killed: int, restarts: int) -> str:
    """The figures at the end, as text that any terminal shows."""
    rate = proof.succeeded / seconds if seconds else 0.0
    lines: list[tuple[str, str, str]] = [
        ("rows imported", f"{proof.rows:,}", "one transaction each, with its three jobs"),
        ("jobs succeeded", f"{proof.succeeded:,} of {proof.jobs:,}", f"{rate:,.0f} a second over {seconds:.1f} s"),
        ("attempts spent", f"{proof.attempts:,}", f"{proof.retries:,} ended in a retry"),
        ("workers killed", f"{killed}", "SIGKILL, while they held running jobs"),
        ("database restarts", f"{restarts}", "under load"),
        ("runs recovered", f"{proof.recoveries:,}", "their worker was gone; another one ran them"),
        ("runs handed back", f"{proof.handed_back:,}", "never started, so no attempt was spent"),
        ("HTTP requests", f"{proof.requests:,}", f"{proof.registrations:,} distinct registrations at the provider"),
        ("mails taken", f"{proof.mails:,}", f"{proof.distinct_mails:,} distinct Message-IDs in the sink"),
        ("report files", f"{proof.reports:,}", "all of them whole"),
    ]
    width = max(len(name) for name, _, _ in lines)
    figure = max(len(value) for _, value, _ in lines)
    return "\n".join(f"  {name:<{width}}  {value:>{figure}}  {more}" for name, value, more in lines)
