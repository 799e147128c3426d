"""The words on the control pipe, from supervisor to child. One line each, never longer than the pipe writes at once.

    D            drain: stop claiming, let runs finish within the shutdown timeout
    N            now: hand back everything within two seconds
    Q            quiet: stop claiming, go on otherwise
    S            show: write stacks and held leases to the log
    G            give up: the database has been away longer than the ttl; cancel the handlers, drop the leases
    T            trouble: a beat failed; claim nothing until one has been answered (SPEC W4)
    B<ns> 1:1,2:1  a beat was answered; <ns>: when it was *sent* (`board.boot_ns`), then the runs (id:run_count) that it renewed
    C1:1,2:1     these were asked to end (SPEC W8)
    L1:1,2:1     these leases are lost (or were taken back before they started): stop, write nothing

The end of the pipe is the supervisor's death. A run in ``B`` renews its own local deadline only (SPEC W5): a busy or
missing one is not in it, and another run of the same job is another one. ``B`` without runs still says that the database
answers (SPEC W4).
"""

from __future__ import annotations

import select
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fencepost.worker.board import RunKey

LONGEST = min(4000, select.PIPE_BUF)
"""Bytes of one line; POSIX writes up to PIPE_BUF (4096 on Linux, 512 on macOS) at once or not at all."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Stop claiming and end; ``now``: within two seconds."""

    now: bool = False


@dataclass(frozen=True, slots=True)
class Quiet:
    """Stop claiming; what runs goes on."""


@dataclass(frozen=True, slots=True)
class Show:
    """Write stacks and held leases to the log."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No good beat for longer than the ttl."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A beat failed. The next one that is answered ends it."""


@dataclass(frozen=True, slots=True)
class Beaten:
    """A beat was answered. ``runs`` were renewed, counted from ``sent_ns``."""

    sent_ns: int
    runs: tuple[RunKey, ...] = ()


@dataclass(frozen=True, slots=True)
class CancelJobs:
    """Somebody asked these to end."""

    runs: tuple[RunKey, ...]


@dataclass(frozen=True, slots=True)
class LostJobs:
    """These leases are no longer ours."""

    runs: tuple[RunKey, ...]


Word = Drain | Quiet | Show | GiveUp | Trouble | Beaten | CancelJobs | LostJobs

_PLAIN: dict[bytes, Word] = {
    b"D": Drain(),
    b"N": Drain(now=True),
    b"Q": Quiet(),
    b"S": Show(),
    b"G": GiveUp(),
    b"T": Trouble(),
}
_LETTER = {word: letter for letter, word in _PLAIN.items()}


def encode(word: Word) -> list[bytes]:
    """The lines of one word; each can be written at once. Lines with runs may come in several pieces, in any order."""
    if isinstance(word, Beaten):
        return _lines(b"B%d " % word.sent_ns, word.runs, even_empty=True)
    if isinstance(word, CancelJobs):
        return _lines(b"C", word.runs)
    if isinstance(word, LostJobs):
        return _lines(b"L", word.runs)
    return [_LETTER[word] + b"\n"]


def _lines(head: bytes, runs: Iterable[RunKey], *, even_empty: bool = False) -> list[bytes]:
    lines: list[bytes] = []
    line = head
    empty = True
    for run in runs:
        text = b"%d:%d" % run if empty else b",%d:%d" % run
        if len(line) + len(text) + 1 > LONGEST:
            lines.append(line + b"\n")
            line, text = head, b"%d:%d" % run
        line, empty = line + text, False
    if not empty or even_empty:
        lines.append(line + b"\n")
    return lines


class Reader:
    """Turns what comes down the pipe into words; half a line waits for its other half, an unknown is passed over."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Word]:
        """The words that are complete now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            word = _decode(line)
            if word is not None:
                yield word


def _decode(line: bytes) -> Word | None:
    if line in _PLAIN:
        return _PLAIN[line]
    letter, rest = line[:1], line[1:]
    try:
        if letter == b"B":
            sent, _, runs = rest.partition(b" ")
            return Beaten(int(sent), _runs(runs))
        if letter == b"C":
            return CancelJobs(_runs(rest))
        if letter == b"L":
            return LostJobs(_runs(rest))
    except ValueError:
        return None
    return None  # a newer supervisor's word


def _runs(text: bytes) -> tuple[RunKey, ...]:
    parts = (part.partition(b":") for part in text.split(b",")) if text else ()
    return tuple((int(id_), int(run)) for id_, _, run in parts)
