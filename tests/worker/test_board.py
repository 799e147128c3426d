"""The board: what a reader sees of a writer, at any moment (worker.md 1 and 2)."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.worker.board import (
    BEAT,
    HEADER,
    ID,
    RECALL,
    SINCE,
    WORDS,
    Board,
    BoardFull,
    EntryState,
    Phase,
    allocate,
    boot_ns,
    size_of,
)
from waiting import eventually

HAMMER = Path(__file__).with_name("hammer.py")


@pytest.fixture
def board() -> Board:
    return Board(None, 0, 8)


@pytest.mark.spec("C6")
def test_a_run_is_shown_from_its_claim_to_its_committed_outcome(board: Board) -> None:
    at = board.publish(70, 3, beat_ms=5000)

    (claimed,) = board.snapshot()
    assert board.start(at, limit_ns=99)
    (started,) = board.snapshot()
    board.overdue(at)
    (overdue,) = board.snapshot()
    board.clear(at)

    assert (claimed.id, claimed.run_count, claimed.state, claimed.limit_ns) == (70, 3, EntryState.CLAIMED, 0)
    assert (started.state, started.limit_ns, started.beat_ms) == (EntryState.STARTED, 99, 5000)
    assert overdue.state is EntryState.OVERDUE
    assert board.snapshot() == []


def test_places_are_used_again_and_the_board_says_when_it_is_full(board: Board) -> None:
    places = [board.publish(n, 1, beat_ms=0) for n in range(1, 9)]

    assert board.room == 0
    with pytest.raises(BoardFull, match="8 entries"):
        board.publish(9, 1, beat_ms=0)

    board.clear(places[3])
    assert board.publish(9, 1, beat_ms=0) == places[3]
    assert {entry.id for entry in board.snapshot()} == {1, 2, 3, 5, 6, 7, 8, 9}


@pytest.mark.spec("C6")
def test_a_recall_reaches_what_was_claimed_before_it_and_nothing_later(board: Board) -> None:
    """worker.md 3.11: the supervisor takes back what has not started; the child must not start it any more."""
    before = board.publish(1, 1, beat_ms=0)

    moment = board.recall()

    after = board.publish(2, 1, beat_ms=0)
    assert not board.start(before)
    assert board.start(after)
    first, second = board.snapshot()
    assert first.since_ns < moment < second.since_ns


def test_a_recall_at_the_very_moment_of_a_claim_counts(board: Board) -> None:
    at = board.publish(1, 1, beat_ms=0)

    board.words[RECALL] = board.words[at + SINCE]

    assert not board.start(at)


def test_two_children_share_a_segment_and_see_nothing_of_each_other() -> None:
    fd = allocate(2, 4)
    first, second = Board(fd, 0, 4), Board(fd, 1, 4)
    os.close(fd)

    first.open(11)
    first.enter(Phase.WORKING)
    for number in range(1, 5):
        first.publish(number, 1, beat_ms=0)

    assert (second.token, second.phase, second.snapshot()) == (0, Phase.STARTING, [])
    assert first.token == 11


def test_another_process_writes_and_this_one_reads() -> None:
    fd = allocate(1, 4)
    board = Board(fd, 0, 4)
    program = (
        "import sys; from fencepost.worker.board import *; b = Board(int(sys.argv[1]), 0, 4);"
        "b.open(2**63 - 1); b.enter(Phase.WORKING); b.start(b.publish(2**62, 2**31 - 1, 250), 7)"
    )

    subprocess.run([sys.executable, "-c", program, str(fd)], pass_fds=[fd], check=True)

    os.close(fd)
    (entry,) = board.snapshot()
    assert entry[:4] == (2**62, 2**31 - 1, EntryState.STARTED, entry.since_ns)
    assert entry.since_ns <= boot_ns()
    assert (board.token, board.phase) == (2**63 - 1, Phase.WORKING)


def test_a_place_that_is_used_again_starts_empty() -> None:
    fd = allocate(1, 4)
    board = Board(fd, 0, 4)
    os.close(fd)
    board.open(5)
    board.stuck(1)
    board.publish(1, 1, beat_ms=0)

    board.wipe()

    assert not any(board.words)
    assert board.room == 4


def test_the_segment_has_no_name_and_is_not_handed_on_by_accident() -> None:
    fd = allocate(1, 4)

    assert not os.get_inheritable(fd)
    assert os.fstat(fd).st_size == size_of(4)
    os.close(fd)


def test_a_half_written_entry_is_not_shown(board: Board) -> None:
    """The writer was interrupted between two stores: odd sequence, or a sum that does not fit (arm64 reorders)."""
    at = board.publish(1, 1, beat_ms=0)
    assert board.read(at)

    board.words[at] += 1
    odd = board.read(at)
    board.words[at] += 1
    unfit = board.read(at)

    assert odd is None
    assert unfit is None


@pytest.fixture
def hammered() -> Iterator[memoryview]:
    """A board whose first entry another process rewrites as fast as it can; id = run_count × 1000003, beat = run_count."""
    fd = allocate(1, 8)
    process = subprocess.Popen([sys.executable, str(HAMMER), str(fd)], pass_fds=[fd])
    words = memoryview(mmap.mmap(fd, 0)).cast("Q")
    eventually(lambda: words[HEADER] > 100)
    yield words
    process.kill()
    process.wait()
    os.close(fd)


def test_a_reader_never_sees_a_torn_entry(hammered: memoryview) -> None:
    """Against a writer that rewrites one entry a million times a second; the unguarded look beside it is torn."""
    board = Board(None, 0, 8)
    board.words = hammered
    seen = wrong = unguarded = 0

    def look() -> bool:
        nonlocal seen, wrong, unguarded
        for _ in range(2000):
            job_id, beat = hammered[HEADER + ID], hammered[HEADER + BEAT]
            unguarded += bool(job_id) and job_id != beat * 1_000_003
            entry = board.read(HEADER)
            if entry is not None:
                seen += 1
                wrong += entry.id != entry.run_count * 1_000_003 or entry.beat_ms != entry.run_count
        return seen > 5_000 and unguarded > 0

    eventually(look, within=30, every=0)

    assert wrong == 0


def test_an_entry_is_one_cache_line() -> None:
    assert WORDS * 8 == 64
    assert HEADER * 8 % 64 == 0
