"""Secrets that are known by what they look like. Each is put together here, so that no scanner stumbles over this file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.steady import STEADY
from fencepost.domain.redact import MASK, Redactor
from fencepost.domain.tokens import without_cards, without_private_keys

MIXED = "a1B2c3D4e5F6g7H8i9J0" * 4
HEX = "0123456789abcdef" * 4

TOKENS = [
    "eyJ" + "hbGciOiJIUzI1NiJ9." + MIXED + "." + MIXED,
    "AKIA" + "ABCDEFGH01234567",
    "sk_" + "live_" + MIXED[:24],
    "whsec_" + MIXED[:32],
    "sk-" + "proj-" + MIXED[:40],
    "xoxb-" + "1234567890-" + MIXED[:24],
    "ghp_" + MIXED[:36],
    "github_" + "pat_" + MIXED[:50],
    "glpat-" + MIXED[:20],
    "AIza" + MIXED[:35],
    "SG." + MIXED[:22] + "." + MIXED[:43],
    "key-" + HEX[:32],
    "npm_" + MIXED[:36],
    "pypi-" + MIXED[:60],
    "dop_v1_" + HEX,
    "shpat_" + HEX[:32],
    "hf_" + MIXED[:34],
    "dapi" + HEX[:32],
    "hvs." + MIXED[:40],
    "dckr_" + "pat_" + MIXED[:27],
]


@pytest.mark.spec("K1")
@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token[:5])
@pytest.mark.parametrize("around", ["{}", "got {} from it", "'{}'", "({})", "https://x/{}/y", "a={}&b", "see:{}."])
def test_a_token_is_known_by_how_it_begins(token: str, around: str) -> None:
    masked = Redactor().text(around.format(token))

    assert token[8:20] not in masked
    assert MASK in masked


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.slack.com/services/T000/B000/" + MIXED[:24],
        "https://discord.com/api/webhooks/123456789/" + MIXED[:60],
    ],
)
def test_an_address_that_is_its_own_password_is_masked(url: str) -> None:
    assert MIXED[:20] not in Redactor().text(f"POST {url} failed")


@pytest.mark.parametrize(
    "word", ["sk-learn", "task-runner-with-a-long-name", "eyJ", "AKIA", "risk-assessment-of-everything", "key-value"]
)
def test_words_that_begin_alike_are_no_tokens(word: str) -> None:
    assert Redactor().text(f"the {word} failed") == f"the {word} failed"


def luhn(digits: str) -> str:
    """``digits`` with the check digit that makes them a card number."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit) * (2 - place % 2)
        total += number - 9 if number > 9 else number
    return digits + str(-total % 10)


cards = st.from_regex(r"(4[0-9]{14}|5[1-5][0-9]{13}|3[47][0-9]{12}|6011[0-9]{11})", fullmatch=True).map(luhn)


@pytest.mark.spec("K1")
@STEADY
@given(
    cards,
    st.sampled_from(["", " ", "-"]),
    st.sampled_from(["{}", "card {} declined", "12 {}", "{} 07", "2026-11-30 {}"]),
)
def test_a_card_number_is_masked_and_its_neighbours_are_not(card: str, gap: str, around: str) -> None:
    written = gap.join(card[at : at + 4] for at in range(0, len(card), 4))

    assert without_cards(around.format(written), MASK) == around.format(MASK)


@pytest.mark.spec("K1")
@STEADY
@given(cards, st.integers(1, 9))
def test_a_number_with_a_wrong_check_digit_is_none(card: str, off: int) -> None:
    other = card[:-1] + str((int(card[-1]) + off) % 10)

    assert without_cards(f"order {other} failed", MASK) == f"order {other} failed"


BEGIN, END = "-----BEGIN " + "RSA PRIVATE KEY-----", "-----END " + "RSA PRIVATE KEY-----"
BODY = "\n".join([MIXED[:64]] * 5)


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"key:\n{BEGIN}\n{BODY}\n{END}\nrest", f"key:\n{MASK}\nrest"),
        (f"{BEGIN}\n{BODY}\n{END}, {BEGIN}\n{BODY}\n{END}", f"{MASK}, {MASK}"),
        (f"cut behind: {BEGIN}\n{BODY[:100]}", f"cut behind: {MASK}"),
        (f"{{cut before}}{BODY[30:]}\n{END} rest", f"{{cut before}}{MASK} rest"),
        (f"{BEGIN}\n{BODY}\n{BEGIN}\n{BODY}\n{END} rest", f"{MASK} rest"),
        ("a PRIVATE KEY of mine", "a PRIVATE KEY of mine"),
    ],
)
def test_a_private_key_is_masked_whole_and_when_it_was_cut_off(text: str, left: str) -> None:
    assert without_private_keys(text, MASK) == left
