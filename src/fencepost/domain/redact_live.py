"""Which live secrets a program holds: found in its environment and its connection strings, for `Redactor.learn`.

What a value is can be told by its variable's name (``DB_PASS``, ``STRIPE_KEY``, ``VAULT_TOKEN``) or by its form: a URL
or DSN with a password in it, whatever the scheme and the driver. Nothing is parsed strictly: an address that no library
accepts, for its password was not percent-encoded, ends up in error messages all the same, and then in pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote, unquote_plus

_LEAST = 6  # shorter ones ("true", "1") would blot out half of every log
_NAME = re.compile(
    r"(?i)(secret|token|password|passwd|passphrase|api_?key|private_?key|credential|_pw$|_pwd$|pgpassword)"
)
_WORD = re.compile(r"(?i)(?:^|_)(?:pass|key)s?\d*(?:_|$)")
_PLACE = re.compile(r"(?i)_(?:file|path|dir|folder|name|type|size|length|prefix)$|^(?!.*\n)[~.]?/")
"""A name that tells of a place or a property, or a value that is a path: no key, but where one lies."""

_SCHEME = re.compile(r"[A-Za-z][\w+.\-]*://")
_FIELD = re.compile(
    r"""(?ix) (?:^|[\s;?&,]) (?:ssl)?(?:password|passwd|pwd|pass|passphrase|secret|token|access_token|auth_token)
    \s*=\s* (?: '(?P<quoted>(?:[^'\\]|\\.)*)' | "(?P<double>[^"]*)" | (?P<bare>\S+) )"""
)


def secrets_in(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Values that must never be stored or logged: those of telling names, and every password inside an address."""
    found: set[str] = set()
    for name, value in environ.items():
        if _NAME.search(name) or (_WORD.search(name) and not (_PLACE.search(name) or _PLACE.search(value))):
            found.add(value)
        if "://" in value or "=" in value:
            found |= passwords_in(value)
    return tuple(sorted(secret for secret in found if len(secret) >= _LEAST))


def passwords_in(text: str) -> set[str]:
    """The passwords inside a URL, a list of URLs, or a DSN of ``name=value``, long enough to be searched for.

    One that was to be percent-encoded comes both ways; one with a bare ``@`` also in the pieces that libraries make of it.
    """
    found: set[str] = set()
    for match in _FIELD.finditer(text):
        found.update(_of_field(match))
    for url in _urls(text):
        for password in _of_url(url):
            found |= {password, unquote(password)}
            found.update(password.split("@"))
    return {secret for secret in found if len(secret) >= _LEAST}


def _of_field(match: re.Match[str]) -> Iterator[str]:
    if (bare := match["bare"]) is not None:
        yield bare
        for end in "&;":  # ends a field in some dialects, and is a part of it in others
            yield from (bare.split(end)[0], unquote_plus(bare.split(end)[0]))
    else:
        quoted = match["quoted"] if match["quoted"] is not None else match["double"]
        yield from (quoted, re.sub(r"\\(.)", r"\1", quoted))


def _urls(text: str) -> Iterator[str]:
    """Every URL without its scheme, to the next one or to white space."""
    found = list(_SCHEME.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    for match, end in zip(found, ends, strict=False):
        yield (text[match.end() : end].split(None, 1) or [""])[0]


def _of_url(rest: str) -> Iterator[str]:
    """The password before the last ``@`` of the authority; with a bare ``/``, ``?`` or ``#`` in it, of the whole."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    before = authority if "@" in authority else rest if ":" in authority else ""
    user_info, at, _ = before.rpartition("@")
    _, colon, password = user_info.partition(":")
    if at and colon:
        yield password
