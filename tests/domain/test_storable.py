"""Text that PostgreSQL can hold and a terminal can show, whatever it was made from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.hostile import HOSTILE, Broken, Huge, Liar, Lying, Mute, Nameless
from domain.steady import STEADY
from fencepost.domain.limits import ERROR_BYTES, NOTE_CHARS
from fencepost.domain.storable import describe, leaves, said, text, type_name

any_text = st.text(st.characters(codec=None), max_size=400)
wide = st.text("aé漢😀\0\ud800\r\n\u2028", max_size=400)


@pytest.mark.spec("R8")
@pytest.mark.parametrize(
    ("raw", "stored"),
    [
        ("plain, with ümlauts and 漢字 😀", "plain, with ümlauts and 漢字 😀"),
        ("boom\x00tail", "boom\ufffdtail"),
        ("a\ud800b\udfff", "a\ufffdb\ufffd"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb\rc\u2028d\u2029e\x85f", "a\nb\nc\nd\ne\nf"),
        ("\x1b[31mred\x07\x7f", "\ufffd[31mred\ufffd\ufffd"),
        ("pay\u202eexe.fdp", "pay\ufffdexe.fdp"),
        ("", ""),
    ],
)
def test_what_cannot_be_stored_or_shown_is_marked_in_its_place(raw: str, stored: str) -> None:
    """PSN-2."""
    assert text(raw) == stored


@pytest.mark.spec("R8")
@STEADY
@given(any_text | wide, st.integers(0, 300))
def test_any_text_fits_into_any_limit(raw: str, limit: int) -> None:
    stored = text(raw, limit)

    assert len(stored.encode("utf-8")) <= limit  # strict: a surrogate would raise
    assert "\0" not in stored


@pytest.mark.spec("R8")
@STEADY
@given(any_text | wide, st.integers(0, 300))
def test_storing_it_again_changes_nothing(raw: str, limit: int) -> None:
    stored = text(raw, limit)

    assert text(stored, limit) == stored


@pytest.mark.spec("R8")
@STEADY
@given(st.text("aé漢😀", min_size=0, max_size=120), st.integers(20, 200))
def test_a_cut_falls_on_the_boundary_of_a_character_and_says_so(raw: str, limit: int) -> None:
    stored = text(raw, limit)

    if len(raw.encode()) <= limit:
        assert stored == raw
    else:
        kept = stored.removesuffix(" ... [cut]")
        assert kept != stored
        assert raw.startswith(kept)
        assert limit - len(stored.encode()) < 4


@pytest.mark.spec("R8")
@pytest.mark.parametrize("letter", ["x", "é", "漢", "😀", "\0", "\ud800"])
def test_fifty_megabytes_become_eight_kibibytes(letter: str) -> None:
    stored = text(letter * 10_000_000)

    assert ERROR_BYTES - 4 < len(stored.encode()) <= ERROR_BYTES == 8192
    assert stored.endswith(" ... [cut]")


@pytest.mark.parametrize(
    "value", [None, 7, b"abc", Lying("abc"), object(), Broken()], ids=lambda value: type(value).__name__
)
def test_what_is_no_plain_text_becomes_one(value: Any) -> None:
    assert type(text(value)) is str


@pytest.mark.spec("R8")
@pytest.mark.parametrize("kind", HOSTILE, ids=lambda kind: "class")
def test_whatever_an_error_does_its_text_is_told(kind: type[BaseException]) -> None:
    """PSN-5."""
    try:
        raise kind("why")
    except BaseException as error:  # noqa: BLE001
        told = describe(error)

    assert type(told) is str
    assert 0 < len(told.encode("utf-8")) <= ERROR_BYTES
    assert "\0" not in told


@pytest.mark.spec("R8")
def test_an_error_whose_text_cannot_be_read_is_known_by_its_class_and_place() -> None:
    """PSN-5."""
    try:
        raise Broken
    except Broken as error:
        told = describe(error)

    assert told.startswith("domain.hostile.Broken: (its text could not be read)\n")
    assert "test_storable.py" in told
    assert type_name(Nameless()) == "(a class without a name)"


@pytest.mark.spec("R8")
def test_of_a_huge_or_lying_text_only_the_beginning_is_looked_at() -> None:
    assert len(said(Huge())) <= NOTE_CHARS
    assert type(said(Liar())) is str
    assert said(Liar()).startswith("the truth the truth")


def fallen() -> BaseException:
    """An error with two causes and their tracebacks."""
    try:
        try:
            try:
                raise KeyError("first")
            except KeyError as error:
                raise ValueError("second") from error
        except ValueError:
            raise RuntimeError("third")  # noqa: B904 - a context, not a cause
    except RuntimeError as error:
        error.add_note("and a note")
        return error


@pytest.mark.spec("R8")
def test_causes_notes_and_the_end_of_the_traceback_are_told() -> None:
    told = describe(fallen())

    assert told.startswith(
        "RuntimeError: third\nand a note\ncaused by: ValueError: second\ncaused by: KeyError: 'first'\n"
    )
    assert 'raise RuntimeError("third")' in told
    assert "test_storable.py" in told


def test_a_hidden_context_stays_hidden() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("outer") from None
    except ValueError as error:
        assert "inner" not in describe(error).split("\n")[0]
        assert "caused by" not in describe(error)


@pytest.mark.spec("R8")
def test_causes_that_lead_in_a_circle_are_told_once() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first

    assert describe(first) == "ValueError: first\ncaused by: ValueError: second"


@pytest.mark.spec("R8")
def test_a_traceback_without_end_leaves_room_for_the_message() -> None:
    def down(depth: int) -> None:
        if depth == 0:
            raise ValueError("m" * 100_000)
        even(depth - 1) if depth % 2 else down(depth - 1)  # two ways, or the frames would be told as one

    def even(depth: int) -> None:
        down(depth)

    with pytest.raises(ValueError, match="m") as caught:
        down(400)
    told = describe(caught.value)

    message, _, frames = told.partition(" ... [cut]\n")
    assert len(told.encode()) <= ERROR_BYTES
    assert ERROR_BYTES // 2 - 20 < len(message) <= ERROR_BYTES // 2
    assert len(frames) > ERROR_BYTES // 3
    assert frames.endswith('raise ValueError("m" * 100_000)')


@pytest.mark.spec("R8")
def test_a_group_of_a_thousand_is_told_by_its_first_and_its_number() -> None:
    """PSN-5."""
    group = ExceptionGroup("many", [ExceptionGroup("some", [ValueError(f"no {n}")]) for n in range(400)])

    told = describe(group)

    assert "  | ValueError: no 0\n  | ValueError: no 1\n" in told
    assert "  | and 390 more" in told


def test_the_leaves_of_a_deep_wide_or_mute_group_are_bounded() -> None:
    deep: BaseException = ValueError("deep")
    for _ in range(500):
        deep = BaseExceptionGroup("level", [deep])

    assert leaves(deep) == ([deep], 1) or str(leaves(deep)[0][0]) == "deep"
    assert len(leaves(ExceptionGroup("wide", [ValueError()] * 5000))[0]) == 10
    assert leaves(Mute("mute", [ValueError()]))[1] == 1


def secretive(value: str) -> str:
    return value.replace("hunter22", "[redacted]")


@pytest.mark.spec("K1", "R8")
def test_every_part_is_redacted() -> None:
    try:
        raise ValueError("password is hunter22") from KeyError("hunter22")
    except ValueError as error:
        error.add_note("try hunter22")
        group = ExceptionGroup("hunter22", [error, TypeError("hunter22")])
        told = [describe(one, secretive) for one in (error, group)]

    assert all("hunter22" not in one and "[redacted]" in one for one in told)


@pytest.mark.spec("K1")
@pytest.mark.parametrize("padding", range(ERROR_BYTES // 2 - 40, ERROR_BYTES // 2 + 4))
def test_no_cut_leaves_half_a_secret(padding: int) -> None:
    """Redacted first, cut then."""
    told = describe(ValueError("x" * padding + "hunter22" + "y" * ERROR_BYTES), secretive)

    assert "hun" not in told


@pytest.mark.spec("K1")
def test_a_redactor_that_fails_hides_the_text() -> None:
    def broken(value: str) -> str:
        raise RuntimeError(value)

    told = describe(ValueError("hunter22"), broken)

    assert set(told.split("\n")) == {"[hidden: the redactor failed]"}
