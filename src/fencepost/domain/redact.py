"""Masks secrets in texts and values before they are stored, logged or shown (SPEC K1).

Linear-time patterns over at most 64 KiB; what is longer is cut first. Masked are: values of telling names (in JSON,
query strings, headers, DSNs, keyword arguments), user info in URLs, Bearer and Basic, JWT, PEM blocks, prefixes of known
vendors, card numbers (Luhn), and the live secrets that the program was told of. A user's hook that fails hides the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

MASK = "[redacted]"
MOST = 64 * 1024
_LEAST_SECRET = 6

_NAMES = (
    r"pass(?:word|wd|phrase)|\bpass|pwd|secret|token|api[_-]?key|apikey|access[_-]?key|private[_-]?key|client[_-]?secret|"
    r"auth(?:orization)?|credential|session[_-]?id|cookie|signature|\b(?:sas|otp|pin|cvv|cvc)"
)
_TELLING = re.compile(rf"(?:^|[_\-.])(?:{_NAMES})s?$|(?:{_NAMES})$", re.IGNORECASE)
_NAMED = re.compile(
    rf"""(?P<name>(?:{_NAMES})s?["']?\s{{0,3}}(?:=>|[=:])\s{{0,3}})(?!\[redacted)"""
    r"""(?P<value>(?:Bearer|Basic|Token|Digest)\s{1,3}[^\s"',;&]{1,4000}|"[^"\n]{1,4000}"|'[^'\n]{1,4000}'|[^\s"',;&)}\]]{1,4000})""",
    re.IGNORECASE,
)
_HEADER = re.compile(
    r"(?P<name>\b(?:set-cookie|cookie|(?:proxy-)?authorization)\s{0,3}:\s{0,3})(?P<value>[^\r\n]{1,4000})",
    re.IGNORECASE,
)
_USERINFO = re.compile(
    r"(?P<name>\b[a-z][a-z0-9+.\-]{1,20}://[^\s/:@\"']{0,200}:)(?P<value>[^\s/@\"']{1,400})(?=@)", re.IGNORECASE
)
_BARE_USERINFO = re.compile(r"(?P<name>\bhttps?://)(?P<value>[^\s/:@\"']{8,200})(?=@)", re.IGNORECASE)
_SCHEME = re.compile(r"(?P<name>\b(?:Bearer|Basic)\s{1,3})(?P<value>[A-Za-z0-9._~+/=\-]{8,4000})")
_TOKENS = re.compile(
    r"\beyJ[A-Za-z0-9_\-]{5,4000}\.[A-Za-z0-9_\-]{5,8000}(?:\.[A-Za-z0-9_\-]{0,4000})?"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\b(?:sk|pk|rk|whsec)_(?:live|test)?_?[A-Za-z0-9]{12,200}"
    r"|\bsk-[A-Za-z0-9_\-]{16,200}"
    r"|\bxox[abeoprs]-[A-Za-z0-9\-]{10,200}"
    r"|\bgh[opsur]_[A-Za-z0-9]{20,200}|\bgithub_pat_[A-Za-z0-9_]{20,200}|\bglpat-[A-Za-z0-9_\-]{16,200}"
    r"|\bAIza[A-Za-z0-9_\-]{30,60}|\bya29\.[A-Za-z0-9_\-]{20,2000}|\bSG\.[A-Za-z0-9_\-]{16,80}\.[A-Za-z0-9_\-]{16,100}"
    r"|\bnpm_[A-Za-z0-9]{30,60}|\bpypi-[A-Za-z0-9_\-]{30,400}|\bdop_v1_[a-f0-9]{40,80}|\bshpat_[a-f0-9]{20,60}"
)
_PEM = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,20000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?")
_CARD = re.compile(r"(?<![\d.])\d(?:[ \-]?\d){12,18}(?![\d.])")


class Redactor:
    """Masks what looks like a secret. Cheap to keep, safe to share between threads; never raises.

    ``secrets``: live values that must never appear. ``keys``: further telling names. ``patterns``: further regular
    expressions, matched values are masked whole. ``hook``: gets the masked text last; if it fails the text is hidden.
    """

    def __init__(
        self,
        secrets: Iterable[str] = (),
        keys: Iterable[str] = (),
        patterns: Iterable[str | re.Pattern[str]] = (),
        hook: Callable[[str], str] | None = None,
    ) -> None:
        self._secrets: tuple[str, ...] = ()
        self._keys = frozenset(key.lower() for key in keys)
        self._patterns = tuple(re.compile(p) if isinstance(p, str) else p for p in patterns)
        if self._keys:
            names = "|".join(re.escape(key) for key in sorted(self._keys))
            self._patterns_named: re.Pattern[str] | None = re.compile(
                rf"(?P<name>\b(?:{names})[\"']?\s{{0,3}}[=:]\s{{0,3}})(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&]+)",
                re.IGNORECASE,
            )
        else:
            self._patterns_named = None
        self._hook = hook
        self.learn(*secrets)

    def learn(self, *secrets: str) -> None:
        """Mask these values too from now on; ones too short to be told from words are left out."""
        known = {s for s in (*self._secrets, *secrets) if len(s) >= _LEAST_SECRET}
        self._secrets = tuple(sorted(known, key=len, reverse=True))

    def text(self, value: str) -> str:
        """``value`` with its secrets masked, cut at 64 KiB."""
        masked = value if len(value) <= MOST else value[:MOST]
        for secret in self._secrets:
            masked = masked.replace(secret, MASK)
        masked = _PEM.sub(MASK, masked)
        masked = _HEADER.sub(_keep_name, masked)
        for pattern in (_USERINFO, _BARE_USERINFO, _NAMED, _SCHEME):
            masked = pattern.sub(_keep_name, masked)
        masked = _TOKENS.sub(MASK, masked)
        masked = _CARD.sub(_mask_card, masked)
        if self._patterns_named is not None:
            masked = self._patterns_named.sub(_keep_name, masked)
        for own in self._patterns:
            masked = own.sub(MASK, masked)
        if self._hook is not None:
            try:
                masked = self._hook(masked)
            except Exception:  # noqa: BLE001 - rather nothing than a secret
                return "[hidden: the redaction hook failed]"
        return str(masked)

    def value(self, value: Any, depth: int = 0) -> Any:
        """A copy of JSON-like ``value``: telling keys masked whole, texts masked inside. Deeper than 50: hidden."""
        if depth > 50:
            return MASK
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                key: MASK
                if self.is_telling(str(key)) and inner not in (None, "", True, False)
                else self.value(inner, depth + 1)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(inner, depth + 1) for inner in value]
        return value

    def is_telling(self, name: str) -> bool:
        """Whether a field of this name holds a secret."""
        return name.lower() in self._keys or bool(_TELLING.search(name[:200]))


def _keep_name(match: re.Match[str]) -> str:
    value = match["value"]
    quote = value[0] if value[0] in "\"'" and len(value) > 1 and value[-1] == value[0] else ""
    return f"{match['name']}{quote}{MASK}{quote}"


def _mask_card(match: re.Match[str]) -> str:
    digits = [int(char) for char in match[0] if char.isdigit()]
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return MASK if total % 10 == 0 and len(set(digits)) > 1 else match[0]
