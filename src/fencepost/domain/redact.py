"""Masks secrets in texts and values before they are stored, logged or shown (SPEC K1).

Masked are, in this order: the live secrets that the program was told of; private keys; headers that carry credentials;
user info in URLs; values of telling names (JSON, query strings, DSNs, keyword arguments, XML, command lines); Bearer and
Basic; tokens with a vendor's prefix; card numbers; the user's own patterns; last the user's hook. A hook that fails hides
the text.

A text is looked at up to 64 KiB and cut there, at a gap between words, so that no half of a secret is left. Patterns are
linear in its length. What no pattern can know is a secret in plain words ("the password is hunter2"): tell the Redactor
of it (``secrets``), which masks it in every spelling that URLs and JSON give it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

from fencepost.domain.storable import CUT, said, shortened
from fencepost.domain.tokens import VENDOR, WEBHOOK, without_cards, without_private_keys
from fencepost.errors import UsageError

MASK = "[redacted]"
_LEAST_SECRET = 6
_LEAST_HALF = 4
_PASSES = 3
_MOST_CUTS = 20
_LEAST_KEY = 3
_DEEPEST = 50
_MOST_VALUES = 20_000
_HIDDEN = "[hidden: the redaction hook failed]"

_CHOSEN = ("password", "passwd", "passphrase", "passcode", "pwd", "secret", "keypass", "storepass")
"""Names of values that people choose, so any word may be one."""

_MADE = (
    "token", "apikey", "accesskey", "secretkey", "privatekey", "accountkey", "signingkey", "encryptionkey", "masterkey",
    "authkey", "sessionkey", "sharedaccesskey", "subscriptionkey", "hmackey", "accesskeyid", "authorization", "credential",
    "credentials", "cookie", "cookies", "sessionid", "csrf", "xsrf", "jwt", "secrets", "passwords", "totp", "cvv", "cvc",
    "connectionstring", "cardnumber", "creditcard",
)  # fmt: skip
"""Names of values that machines make: ``token: expired`` is a sentence."""

_WEAK = frozenset({"auth", "otp", "pass", "pin", "session", "sid", "sig", "signature"})
"""Names that are words too: they tell only directly before ``=`` or as a quoted key, never before a colon."""

_ANYWHERE = ("password", "secret")
_HARMLESS_TAILS = (
    "url",
    "uri",
    "file",
    "path",
    "type",
    "field",
    "name",
    "count",
    "length",
    "policy",
    "expired",
    "required",
)
_PROSE = frozenset({
    "a", "an", "cannot", "could", "expected", "field", "has", "have", "in", "incorrect", "input", "int", "invalid", "is",
    "it", "may", "missing", "must", "no", "not", "of", "optional", "required", "should", "str", "string", "the", "this",
    "too", "value", "was", "were", "wrong",
})  # fmt: skip
_LAST_WORD = re.compile(r"^.*[._\- ]", re.DOTALL)
_SQUEEZE = str.maketrans("", "", "_-. ")
_TRIVIAL = re.compile(
    r"""(?:\\?["'])?(?:|none|null|nil|true|false|undefined|\[redacted\]|\*{1,60}|<(?:hidden|masked|none|redacted|unset)>"""
    r"""|\$?\{\w{0,60}\}|%s|\?|\.{3})(?:\\?["'])?""",
    re.IGNORECASE,
)
_HEAD = re.compile(
    r"""(?<![\w.\-])-{0,2}(?P<name>\w[\w.\-]{2,}+)(?P<close>\\{0,3}["']\]?|\])?"""
    r"""(?P<sign>[ \t]{0,3}(?:=>|:=|==|=|:(?![:/]))[ \t]{0,3})(?:[bru](?=["']))?"""
)
_VALUE = re.compile(
    r"""(?:(?:bearer|basic|token|digest|apikey|negotiate)[ ]{1,3}[^\s"',;&\\]++"""
    r"""|\\"(?:[^"\\\n]|\\\\(?:\\.|[^"\n])?|\\[^"\\\n])*+(?:\\")?"""  # JSON inside a JSON text
    r"""|\\{2,3}"[^"\n]*?\\{1,3}"|\\{2,3}"[^"\n]*+"""  # and inside that
    r"""|"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.|'')*+'?"""
    r"""|\[redacted\]|(?![(\[{])[^\s"',;&<>)}\]]++)""",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r""""(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?|[()\[\]{}\n]""")
_HEADERS = re.compile(
    r"(?P<name>(?=[scpax])(?<![\w\-])(?:set-cookie2?|cookie|(?:proxy-)?authorization|x-(?!idempotency)[\w\-]{0,30}(?:token|key|secret|auth))"
    r"[ \t]{0,3}:[ \t]{0,3})(?P<value>[^\s\"'][^\r\n\"']*+)",
    re.IGNORECASE,
)
_USERINFO = re.compile(
    r"(?P<name>(?<![\w+.\-])[a-z][\w+.\-]{1,30}://[^\s/:@\"'<>]{0,200}:)"
    r"(?P<value>[^\s/\"'<>]{1,1000}|(?![0-9]{1,5}[/?#]|[0-9a-f:.]{1,50}\])[^\s\"'<>]{1,200})(?=@)",
    re.IGNORECASE,
)
_TOKEN_INFO = re.compile(
    r"(?P<name>(?<![\w+.\-])[a-z][\w+.\-]{1,30}://)(?P<value>(?=[^\s/:@]{0,200}[0-9])[^\s/:@\"'<>]{16,1000})(?=@)",
    re.IGNORECASE,
)
_SCHEME = re.compile(
    r"(?P<name>(?=b)(?<!\w)(?:bearer|basic)[ ]{1,3})(?P<value>[A-Za-z0-9._~+/\-]{6,}+={0,3})", re.IGNORECASE
)
_XML = re.compile(r"(?P<name><(?P<tag>[\w:.\-]{1,80})(?:\s[^<>]{0,200})?>)(?P<value>[^<>]++)(?=</|<?\Z)")
_QUOTED = r"""(?P<value>"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?"""
_OPTION = re.compile(
    r"""(?P<name>(?<![^\s"'])--?(?P<tag>[a-z][\w\-]{1,40})(?:[ ]{1,3}|["'],[ ]?(?=["'])))"""
    rf"""{_QUOTED}|[^\s\-"'][^\s"']{{2,}}+)""",
    re.IGNORECASE,
)
_PAIR = re.compile(rf"""(?P<name>\(b?(?P<mark>["'])(?P<tag>[\w.\-]{{3,80}})(?P=mark),[ ]?b?){_QUOTED})(?=\)|\Z)""")
_WORDLIKE = re.compile(r"(?:[A-Za-z]?[a-z]*|[A-Z]+)(?:[\-_/.][a-z]+){0,10}[.,;:=!?]{0,3}")
_LONGEST_WORD = 24


class Redactor:
    """Masks what looks like a secret. Cheap to keep, safe to share between threads; its methods never raise.

    ``secrets``: live values that must never appear, of at least 6 characters. ``keys``: further telling names.
    ``patterns``: further regular expressions, whose matches are masked whole (that they are linear is up to their
    author). ``hook``: gets the masked text last and returns the text to keep. Raises `UsageError` for what is none.
    """

    def __init__(
        self,
        secrets: Iterable[str] = (),
        keys: Iterable[str] = (),
        patterns: Iterable[str | re.Pattern[str]] = (),
        hook: Callable[[str], str] | None = None,
    ) -> None:
        _check_list("secrets", secrets)
        _check_list("keys", keys)
        _check_list("patterns", patterns)
        _check_hook(hook)
        self._secrets: tuple[str, ...] = ()
        self._keys = frozenset(_key(key) for key in keys)
        self._patterns = tuple(_compiled(pattern) for pattern in patterns)
        self._hook = hook
        self.learn(*secrets)

    def __repr__(self) -> str:
        return f"<Redactor that knows {len(self._secrets)} spellings of live secrets>"

    def learn(self, *secrets: str) -> None:
        """Mask these values too from now on; ones too short to be told from words are left out."""
        spellings = {form for one in secrets for form in _spellings(one)}
        self._secrets = tuple(sorted(spellings.union(self._secrets), key=len, reverse=True))

    def text(self, value: str) -> str:
        """``value`` with its secrets masked, cut at 64 KiB. Masking it again changes nothing."""
        masked = shortened(value if type(value) is str else said(value))
        for _ in range(_PASSES):  # where one was masked, the next begins; a text without secrets is looked at once
            before, masked = masked, shortened(self._masked(masked))
            if masked == before:
                break
        for own in self._patterns:
            masked = own.sub(MASK, masked)
        if self._hook is None:
            return masked
        try:
            hooked = self._hook(masked)
        except Exception:  # noqa: BLE001 - rather nothing than a secret
            return _HIDDEN
        return hooked if type(hooked) is str else _HIDDEN

    def _masked(self, text: str) -> str:
        masked = without_private_keys(self._without_secrets(text), MASK)
        if ":" in masked:
            masked = _HEADERS.sub(_keep_name, masked)
        if "://" in masked:
            for pattern in (_USERINFO, _TOKEN_INFO, WEBHOOK):
                masked = pattern.sub(_keep_name, masked)
        masked = self._named(masked)
        masked = _SCHEME.sub(_mask_scheme, masked)
        masked = VENDOR.sub(MASK, masked)
        return without_cards(masked, MASK)

    def value(self, value: Any) -> Any:
        """A JSON-like copy of ``value``: values of telling keys masked whole, texts masked inside.

        Pairs (header lists) count as key and value. Other objects become their masked text. Deeper than 50 levels, or
        past 20,000 values: masked.
        """
        return _Copy(self).of(value, 0)

    def is_telling(self, name: str) -> bool:
        """Whether a field of this name holds a secret."""
        return self._tells(name) or _is_weak(name)

    def _tells(self, name: str) -> bool:
        return _is_telling(name[-100:]) or (bool(self._keys) and _squeezed(name) in self._keys)

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        if not self._secrets or CUT not in text:
            return text
        parts = text.split(CUT, _MOST_CUTS)
        for place, part in enumerate(parts[:-1]):
            for secret in self._secrets:  # of one that has gaps inside, half may be left before a cut
                half = next((n for n in range(len(secret) - 1, _LEAST_HALF - 1, -1) if part.endswith(secret[:n])), 0)
                if half:
                    parts[place] = part[:-half] + MASK
                    break
        return CUT.join(parts)

    def _named(self, text: str) -> str:
        """Mask the values of telling names. By hand, since the pair inside ``error: password=x`` must be seen too."""
        parts: list[str] = []
        kept = at = 0
        while (head := _HEAD.search(text, at)) is not None:
            at = head.end()
            if not self._tells(head["name"]) and not _tells_weakly(head):
                continue
            end = _end_of_value(text, at)
            value = text[at:end]
            if _TRIVIAL.fullmatch(value) or _is_sentence(head, value):
                continue
            parts += (text[kept:at], _masked_value(value))
            kept = at = end
        masked = "".join((*parts, text[kept:])) if parts else text
        for sign, pattern in (("</", _XML), ("-", _OPTION), ("(", _PAIR)):
            if sign in masked:
                masked = pattern.sub(self._mask_if_telling, masked)
        return masked

    def _mask_if_telling(self, match: re.Match[str]) -> str:
        if not self.is_telling(match["tag"]) or _TRIVIAL.fullmatch(match["value"]):
            return match[0]
        return match["name"] + _masked_value(match["value"])


class _Copy:
    """One walk of `Redactor.value`."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._left = _MOST_VALUES

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if depth > _DEEPEST or self._left < 0:
            return MASK
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return self._number(value)
        if isinstance(value, Mapping):
            return {self._key(key): self._field(said(key), inner, depth) for key, inner in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str | bytes):
                return [self.of(value[0], depth + 1), self._field(_text(value[0]), value[1], depth)]
            return [self.of(inner, depth + 1) for inner in value]
        return self._redactor.text(_text(value))

    def _field(self, name: str, value: Any, depth: int) -> Any:
        if self._redactor.is_telling(name) and value is not None and not isinstance(value, bool) and value != "":
            return MASK
        return self.of(value, depth + 1)

    def _key(self, key: Any) -> Any:
        return self._redactor.text(_text(key)) if isinstance(key, str | bytes) else key

    def _number(self, value: float) -> Any:
        if isinstance(value, int) and 10**12 <= abs(value) < 10**20 and self._redactor.text(str(value)) != str(value):
            return MASK
        return value


def _compiled(pattern: Any) -> re.Pattern[str]:
    try:
        made = re.compile(pattern)
    except (re.error, TypeError) as error:
        message = f"redact: patterns must be regular expressions: {error}"
        raise UsageError(message) from None
    if not isinstance(made.pattern, str):
        message = "redact: patterns must be regular expressions over text, not bytes"
        raise UsageError(message)
    return made


def _check_list(field: str, given: Any) -> None:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        message = f"redact: {field} must be a list of texts, not {type(given).__name__}"
        raise UsageError(message)


def _check_hook(hook: Any) -> None:
    if hook is not None and not callable(hook):
        message = f"redact: hook must be a function from text to text, not {type(hook).__name__}"
        raise UsageError(message)


def _key(key: Any) -> str:
    squeezed = _squeezed(key) if isinstance(key, str) else ""
    if len(squeezed) < _LEAST_KEY:
        message = f"redact: keys must be names of at least {_LEAST_KEY} letters, not {key!r:.40}"
        raise UsageError(message)
    return squeezed


def _spellings(secret: Any) -> set[str]:
    """The secret as it is, in URLs, in JSON and in a ``repr``."""
    if not isinstance(secret, str):
        return set()
    safe = secret.encode("utf-8", "replace").decode("utf-8")
    forms = {secret, quote(safe, safe=""), quote(safe), quote_plus(safe), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    return {form for form in forms if len(form) >= _LEAST_SECRET and form not in MASK}


def _squeezed(name: str) -> str:
    return name.lower().translate(_SQUEEZE)


@lru_cache(maxsize=4096)
def _is_telling(name: str) -> bool:
    squeezed = _squeezed(name).rstrip("0123456789")
    return squeezed.endswith(_MADE) or _is_chosen(squeezed)


def _is_chosen(squeezed: str) -> bool:
    """A password or secret, or what is made of one (``password_hash``, ``secret_key_base``); not ``secretary``."""
    if squeezed.endswith(_CHOSEN):
        return True
    inside = any(word in squeezed for word in _ANYWHERE)
    return inside and "secretar" not in squeezed and not squeezed.endswith(_HARMLESS_TAILS)


def _tells_weakly(head: re.Match[str]) -> bool:
    direct = head["close"] is not None or head["sign"] == "="
    compound = "_" in head["name"] or "-" in head["name"]  # db_pass: more than a word
    return (direct or compound) and _is_weak(head["name"])


def _is_weak(name: str) -> bool:
    """``pass``, and ``DB_PASS``, but not ``bypass``."""
    return _LAST_WORD.sub("", name[-100:]).lower().rstrip("0123456789") in _WEAK


def _end_of_value(text: str, at: int) -> int:
    """Where the value that begins here ends; a bracketed one with its last bracket, or with its line if that was cut off."""
    if text[at : at + 1] not in ("(", "[", "{") or text.startswith(MASK, at):
        found = _VALUE.match(text, at)
        return at if found is None else found.end()
    depth = 0
    for mark in _BRACKETS.finditer(text, at):
        if mark[0] == "\n":
            return mark.start()
        if mark[0][0] not in "\"'":
            depth += 1 if mark[0] in "([{" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def _is_sentence(head: re.Match[str], value: str) -> bool:
    """``password: must have 8 characters`` and ``invalid token: expired`` tell no secret."""
    if head["close"] is not None or ":" not in head["sign"] or value[0] in "\"'\\":
        return False
    if value.lower().rstrip(".,:!?") in _PROSE:
        return True
    return not _is_chosen(_squeezed(head["name"])) and _is_word(value)


def _is_word(value: str) -> bool:
    return len(value) < _LONGEST_WORD and _WORDLIKE.fullmatch(value) is not None


def _keep_name(match: re.Match[str]) -> str:
    return match[0] if _TRIVIAL.fullmatch(match["value"]) else match["name"] + MASK


def _mask_scheme(match: re.Match[str]) -> str:
    """``Basic authentication failed`` is a sentence; a credential has digits, signs, or capitals inside."""
    return match[0] if _is_word(match["value"]) else match["name"] + MASK


def _masked_value(value: str) -> str:
    """The mask in the value's own quotes, so that JSON stays JSON."""
    for quote_mark in ('\\\\\\"', '\\\\"', '\\"', '"', "'"):
        if value.startswith(quote_mark):
            return (
                quote_mark + MASK + (quote_mark if value.endswith(quote_mark) and len(value) > len(quote_mark) else "")
            )
    return MASK


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else said(value)
