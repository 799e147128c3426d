"""The board: what a child runs, published in shared memory for its supervisor.

One memfd (an unlinked temporary file where there is none), inherited by descriptor: no name, no resource tracker,
nothing to clean up after a crash. Everything is an aligned 64-bit word, so that each store is one machine store.

    header of a child (16 words)  BORN PING TOKEN PHASE STUCK PID HIGH RECALL ASKED  (7 spare)
    entry (8 words, one line)     SEQ ID RUN STATE SINCE LIMIT SUM BEAT

SEQ is odd while an entry is rewritten. SUM = ID ^ RUN ^ SEQ is compared by the reader: on processors that reorder
stores SEQ alone proves nothing, the sum does. STATE and LIMIT are single words that may change alone. One writer per
entry at a time: the thread that claimed, then the one that runs it, then the one that saw the outcome committed. The
supervisor writes one word only, RECALL.

The order that makes a death readable: `publish` before the job can be seen by anybody else, `start` before its body,
`clear` only after its outcome is *committed*. So CLAIMED means "the body has not begun", anything else "it may have".
"""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from enum import IntEnum
from typing import NamedTuple

WORDS = 8
"""Words of an entry."""

HEADER = 16
"""Words of a child's header."""

BORN, PING, TOKEN, PHASE, STUCK, PID, HIGH, RECALL, ASKED = range(9)
SEQ, ID, RUN, STATE, SINCE, LIMIT, SUM, BEAT = range(8)

_TRIES = 50
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # macOS: its monotonic clock; untested there


class EntryState(IntEnum):
    """What is known of a run. Everything but CLAIMED counts as started when the process dies."""

    FREE = 0
    CLAIMED = 1
    STARTED = 2
    OVERDUE = 3
    """Its time is over and its body goes on: at a death it takes the timeout path."""


class Phase(IntEnum):
    """What a child is doing. STARTING: imports user code and has claimed nothing, so it may be killed at any time."""

    STARTING = 0
    WORKING = 1
    DRAINING = 2
    DONE = 3


_STATES = tuple(EntryState)


def boot_ns() -> int:
    """Nanoseconds on a clock that goes on in a suspend, where CLOCK_MONOTONIC stands still."""
    return time.clock_gettime_ns(_CLOCK)


RunKey = tuple[int, int]
"""A run of a process whose token is known: (id, run_count)."""


class Entry(NamedTuple):
    """One run as a reader saw it. ``limit_ns``: when it must have ended (`boot_ns`; 0: no limit).

    ``beat_ms``: how often its lease wants a beat, in milliseconds; 0: a plain lease, never beaten (SPEC C4).
    """

    id: int
    run_count: int
    state: EntryState
    since_ns: int
    limit_ns: int
    beat_ms: int
    at: int

    @property
    def key(self) -> RunKey:
        """Which run it is; a process may show two runs of one job."""
        return self.id, self.run_count


def allocate(children: int, entries: int) -> int:
    """Make a segment for so many children; the descriptor is close-on-exec, pass it on with ``pass_fds``."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("fencepost-board", os.MFD_CLOEXEC)
    else:  # pragma: no cover - macOS; untested
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, children * size_of(entries))
    return fd


def size_of(entries: int) -> int:
    """Bytes of one child's part."""
    return (HEADER + entries * WORDS) * 8


class BoardFull(RuntimeError):  # noqa: N818 - says what happened
    """More runs than entries; the writer must look at `Board.room` before it claims."""


class Board:
    """One child's part of the segment. The same class writes (in the child) and reads (in the supervisor).

    ``fd=None``: plain memory, for an embedded worker, whose reader is a thread of the same process.
    """

    __slots__ = ("_free", "_map", "entries", "words")

    def __init__(self, fd: int | None, child: int, entries: int) -> None:
        size = size_of(entries)
        self._map: mmap.mmap | None = None
        if fd is None:
            self.words = memoryview(bytearray(size)).cast("Q")
        else:
            self._map = mmap.mmap(fd, 0)
            self.words = memoryview(self._map)[child * size : (child + 1) * size].cast("Q")
        self.entries = entries
        self._free = list(range(HEADER + WORDS * (entries - 1), HEADER - 1, -WORDS))

    # -------------------------------------------------------------------------------------------------------- writer

    @property
    def room(self) -> int:
        """How many more runs can be published."""
        return len(self._free)

    @property
    def token(self) -> int:
        """The lease token of the process that writes here; 0 until it is known."""
        return self.words[TOKEN]

    @property
    def phase(self) -> Phase:
        """What the process is doing."""
        return Phase(self.words[PHASE])

    def open(self, token: int) -> None:
        """The writer says who it is. ``token``: 63 random bits, never 0. Call once, before the first claim."""
        self.words[PID] = os.getpid()
        self.words[BORN] = boot_ns()
        self.words[TOKEN] = token

    def ping(self) -> None:
        """A sign of life; a few times a second, from a thread that user code cannot own."""
        self.words[PING] = boot_ns()

    def enter(self, phase: Phase) -> None:
        """Say what the process is doing now."""
        self.words[PHASE] = phase

    def stuck(self, by_ns: int) -> None:
        """Ask the supervisor to end this process at ``by_ns`` (`boot_ns`): something in it cannot be stopped else."""
        self.words[STUCK] = by_ns

    def ask_for_beat(self) -> None:
        """The writer met trouble and claims nothing until a beat has passed: may it come soon (SPEC W4)."""
        self.words[ASKED] = boot_ns()

    def publish(self, job_id: int, run: int, beat_ms: int, since_ns: int | None = None) -> int:
        """Show a claimed run; returns its place. From one thread only. Raises `BoardFull`.

        ``since_ns``: a moment just before (`boot_ns`), for many at once. Earlier than the truth is safe: `start` refuses.
        """
        try:
            at = self._free.pop()
        except IndexError:
            message = f"the board has {self.entries} entries and all are in use"
            raise BoardFull(message) from None
        w = self.words
        w[HIGH] = max(w[HIGH], at)  # before the entry: a reader looks no further than this
        seq = w[at] + 1
        w[at] = seq
        w[at + ID] = job_id
        w[at + RUN] = run
        w[at + STATE] = 1
        w[at + SINCE] = boot_ns() if since_ns is None else since_ns
        w[at + LIMIT] = 0
        w[at + BEAT] = beat_ms
        w[at + SUM] = job_id ^ run ^ (seq + 1)
        w[at] = seq + 1
        return at

    def start(self, at: int, limit_ns: int = 0) -> bool:
        """Say that the body begins now. ``limit_ns``: when the supervisor must end it (`boot_ns`; 0: never).

        False: the supervisor took back what had not started since this run was claimed. Then the body must not begin:
        hand the run back (a release; the answer may be ``lost``, the supervisor was faster).
        """
        w = self.words
        w[at + LIMIT] = limit_ns  # before STATE: a started run always has its limit
        w[at + STATE] = 2
        return w[RECALL] < w[at + SINCE]

    def overdue(self, at: int) -> None:
        """Its time is over but its body cannot be stopped: when this process ends, it takes the timeout path."""
        self.words[at + STATE] = 3

    def limit(self, at: int, limit_ns: int) -> None:
        """Change when the supervisor must end the run; 0: never."""
        self.words[at + LIMIT] = limit_ns

    def clear(self, at: int) -> None:
        """Free the place; only after the outcome is committed or the lease lost: till then it counts as run."""
        w = self.words
        seq = w[at] + 1
        w[at] = seq
        w[at + STATE] = 0
        w[at + ID] = 0
        w[at + SUM] = 0
        w[at] = seq + 1
        self._free.append(at)

    # -------------------------------------------------------------------------------------------------------- reader

    def recall(self) -> int:
        """The supervisor is about to take back what has not started: from now on `start` answers False to it.

        Returns the moment. Take back only entries that are CLAIMED when read *after* this call and have ``since_ns``
        before it: younger ones do not ask.
        """
        now = self.words[RECALL] = boot_ns()
        return now

    @property
    def asked_ns(self) -> int:
        """When the writer last asked for an early beat (`boot_ns`); 0: never."""
        return self.words[ASKED]

    def read(self, at: int) -> Entry | None:
        """One entry as it was at one moment; None: free, or rewritten while we read (such a run is new or over)."""
        w = self.words
        for _ in range(_TRIES):
            seq = w[at]
            job_id, run, state, since = w[at + ID], w[at + RUN], w[at + STATE], w[at + SINCE]
            limit, beat, check = w[at + LIMIT], w[at + BEAT], w[at + SUM]
            if seq == w[at] and not seq & 1:
                if not job_id:
                    return None
                if check == job_id ^ run ^ seq and state:
                    return Entry(job_id, run, _STATES[state], since, limit, beat, at)
            time.sleep(0)
        return None

    def snapshot(self) -> list[Entry]:
        """Every run on the board. Runs that come or go meanwhile may be missing; those that stay are not."""
        w = self.words
        high = w[HIGH]
        if not high:
            return []
        found = []
        for at in range(HEADER, high + 1, WORDS):
            if w[at + ID] or w[at] & 1:
                entry = self.read(at)
                if entry is not None:
                    found.append(entry)
        return found

    def wipe(self) -> None:
        """Make the place ready for a new process. Only while no process writes."""
        for at in range(len(self.words)):
            self.words[at] = 0
        self._free = list(range(HEADER + WORDS * (self.entries - 1), HEADER - 1, -WORDS))
