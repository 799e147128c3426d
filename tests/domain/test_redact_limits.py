"""Redaction of hostile and huge text: bounded in time, the same when done twice, and no half of a secret is left."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.steady import STEADY
from fencepost.domain.limits import ERROR_BYTES, NOTE_CHARS
from fencepost.domain.redact import MASK, Redactor
from fencepost.domain.storable import describe

LIVE = "s3cr3t-live-value"
PHRASE = "correct horse battery staple"
KNOWING = Redactor(secrets=[LIVE, PHRASE])
SECRET = "hunter22xK"

HOSTILE = [
    "a", "-", "a-", "a.", "_", "\\", '"', "'", '\\"', "password=", "password='", 'password="', "password:[", "password=(",
    'password=\\"', "password={'", "token=''''", "password=a,", "token: a ", "://", "a://", "a://b:", "ab://:x", "a://b:c@",
    "a://b@", "ab://aaaaaaaaaaaaaaa1", "a:", "@", "=", "-a", "--a ", "--token '", "('token', '", "<a>", "<a ", "<password>",
    "</", "4", "4 ", "41-", "4111111111111111 ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "PRIVATE KEY",
    "eyJ", "eyJaaaaaaaa.", "sk-", "sk-a", "xoxb-", "Bearer ", "bearer a", "basic ", "cookie: ", "authorization:", "x-a",
    "x-aaaaaaaaaaa-", "x-key:", "SG.", "dp.st.", "a" * 14 + ".atlasv1.", "1:AA", " ", "\n", "password   ", "é", "ghp_a1",
    "s3cr3t-live-valu", "correct horse", "correct horse ... [cut]", MASK, "[",
]  # fmt: skip


@pytest.mark.spec("K1")
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_takes_bounded_time(piece: str) -> None:
    """64 KiB take a tenth of a second, on a slow machine one; a pattern that looks again and again takes minutes."""
    text = (piece * NOTE_CHARS)[: 16 * NOTE_CHARS]

    began = time.process_time()
    masked = KNOWING.text(text)
    took = time.process_time() - began

    assert took < 5
    assert len(masked) <= NOTE_CHARS


@pytest.mark.spec("K1")
@pytest.mark.parametrize("piece", HOSTILE)
def test_of_a_huge_text_the_mask_is_the_same_when_done_twice(piece: str) -> None:
    masked = KNOWING.text((piece * NOTE_CHARS)[:NOTE_CHARS])

    assert KNOWING.text(masked) == masked


pieces = st.sampled_from([
    "password", "token", "user", "DB_PASS", "sid", "a", "must", "null", "=", ":", " ", "'", '"', "\\", "{", "}", "[", "]", "(",
    ")", ",", "\n", "&", "?", "://", "@", "/", "--", "-", "<password>", "</password>", "<", "Bearer ", "Authorization: ",
    "cookie: ", "x-api-key: ", "ghp_" + "a1" * 12, "4111 1111 1111 1111", "-----BEGIN PRIVATE KEY-----", "eyJhbGciOiJI.aaaaaa.bb",
    "-----END PRIVATE KEY-----", LIVE, PHRASE, "correct h", MASK, " ... [cut]", "AKIA" + "A" * 16, "basic dXNlcjpw", "1", "hunter22",
])  # fmt: skip


@pytest.mark.spec("K1")
@STEADY
@given(st.lists(pieces, max_size=12).map("".join) | st.text(max_size=100))
def test_masking_any_text_again_changes_nothing_and_leaves_no_live_secret(text: str) -> None:
    masked = KNOWING.text(text)

    assert KNOWING.text(masked) == masked
    assert LIVE not in masked
    assert PHRASE not in masked


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.lists(pieces, max_size=4).map("".join),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(pieces, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.spec("K1")
@STEADY
@given(values)
def test_a_masked_value_holds_no_live_secret_and_stays_as_it_is(value: object) -> None:
    masked = KNOWING.value(value)

    assert LIVE not in repr(masked)
    assert PHRASE not in repr(masked)
    assert KNOWING.value(masked) == masked


@pytest.mark.spec("K1")
@pytest.mark.parametrize("secret", [LIVE, PHRASE, "ghp_" + "a1B2" * 9, f"password='{SECRET} {SECRET}'"])
@pytest.mark.parametrize("around", [" ", "word ", "x,", '"'])
def test_no_half_of_a_secret_is_left_where_a_huge_text_is_cut(secret: str, around: str) -> None:
    """With the secret at several places across the cut; gaps are spaces, or commas and quotes as in JSON without any."""
    half = secret[: len(secret) // 2][-8:]
    last_resort = NOTE_CHARS - 8192  # where a text without any gap is cut
    near = range(NOTE_CHARS - len(secret) - 14, NOTE_CHARS + 4, 7), range(last_resort - len(secret), last_resort, 9)
    for at in itertools.chain(*near):
        text = (around * NOTE_CHARS)[: at - len(around)] + around + secret + around * 10_000

        masked = KNOWING.text(text)

        assert half not in masked
        assert last_resort - 200 < len(masked) <= NOTE_CHARS


@pytest.mark.spec("K1", "R8")
def test_the_end_of_what_is_looked_at_of_an_error_shows_no_half_of_a_secret() -> None:
    """Values that shrink when they are masked bring the cut of the long text into the short one that is stored."""
    long = "token=" + "x1" * 4000 + " "
    for at in range(0, 60, 3):
        text = (long * 8)[: NOTE_CHARS - 70 + at].replace(" x", "  ") + " " + PHRASE * 4

        told = describe(RuntimeError(text), KNOWING.text)

        assert len(told.encode()) < ERROR_BYTES // 4
        assert "correct horse" not in told


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    "text",
    [
        'password="{}"',
        "password='{}",
        "password={}",
        "Cookie: a={}",
        "Authorization: Bearer {}",
        "sent Bearer {}",
        "--token {}",
        "<token>{}</token>",
        '{{\\"token\\": \\"{}\\"}}',
        "secrets=['{}', 'x']",
        "ghp_{}",
        "pypi-{}",
        "xoxb-{}",
    ],
)
def test_a_secret_is_masked_whole_however_long_it_is(text: str) -> None:
    masked = Redactor().text("see " + text.format("a1B2" * 5000))

    assert len(masked) < 100
    assert MASK in masked


@pytest.mark.spec("K1")
def test_what_is_too_deep_or_too_much_is_masked() -> None:
    deep: object = SECRET
    for _ in range(100_000):
        deep = [deep]
    circle: dict[str, object] = {}
    circle["again"] = circle

    assert SECRET not in repr(Redactor().value(deep))
    assert MASK in repr(Redactor().value(circle))
    assert Redactor().value([SECRET] * 30_000)[-1] == MASK
