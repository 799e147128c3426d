"""The words on the control pipe survive it, in whatever pieces they arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.worker import words
from fencepost.worker.words import Beaten, CancelJobs, Drain, GiveUp, LostJobs, Quiet, Reader, Show, Trouble, Word

run = st.tuples(st.integers(1, 2**63 - 1), st.integers(1, 2**31 - 1))
runs = st.lists(run, max_size=400).map(tuple)
some_runs = st.lists(run, min_size=1, max_size=400).map(tuple)
any_word: st.SearchStrategy[Word] = st.one_of(
    st.sampled_from([Drain(), Drain(now=True), Quiet(), Show(), GiveUp(), Trouble()]),
    st.builds(Beaten, st.integers(0, 2**63), runs),
    st.builds(CancelJobs, some_runs),
    st.builds(LostJobs, some_runs),
)


def joined(heard: list[Word]) -> list[Word]:
    """Words that came in several lines, as one."""
    found: list[Word] = []
    for word in heard:
        last = found[-1] if found else None
        if isinstance(word, Beaten) and isinstance(last, Beaten) and last.sent_ns == word.sent_ns:
            found[-1] = Beaten(word.sent_ns, last.runs + word.runs)
        elif isinstance(word, CancelJobs) and isinstance(last, CancelJobs):
            found[-1] = CancelJobs(last.runs + word.runs)
        elif isinstance(word, LostJobs) and isinstance(last, LostJobs):
            found[-1] = LostJobs(last.runs + word.runs)
        else:
            found.append(word)
    return found


@given(any_word, st.integers(1, 50))
def test_what_is_said_is_heard(word: Word, piece: int) -> None:
    said = b"".join(words.encode(word))
    reader = Reader()

    heard = [one for at in range(0, len(said), piece) for one in reader.feed(said[at : at + piece])]

    assert joined(heard) == [word]


@given(any_word)
def test_each_line_fits_into_one_write(word: Word) -> None:
    """A longer one could be written by half to a full pipe, and the other half never."""
    lines = words.encode(word)

    assert all(len(line) <= words.LONGEST and line.count(b"\n") == 1 for line in lines)


@pytest.mark.parametrize("noise", [b"Z9\n", b"B\n", b"Bx 1\n", b"C1,,2\n", b"C1\n", b"\n", b"\xff\xfe\n"])
def test_what_it_does_not_know_is_passed_over(noise: bytes) -> None:
    """A newer supervisor may say more."""
    assert list(Reader().feed(noise + b"D\n")) == [Drain()]


def test_a_beat_without_runs_is_heard() -> None:
    """It says that the database answers (SPEC W4)."""
    assert list(Reader().feed(b"".join(words.encode(Beaten(5))))) == [Beaten(5, ())]
