"""Secrets are masked wherever they stand: in connection strings, URLs, headers, JSON, arguments, command lines."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from domain.hostile import HOSTILE, Lying
from fencepost.domain.redact import MASK, Redactor
from fencepost.errors import UsageError

SECRET = "hunter22xK"

LEAKS = [
    # connection strings
    "postgresql://app:{}@db.example:5432/shop?sslmode=require",
    "could not connect: postgres://app:{}@db/shop",
    "postgres://app:p@{}@db/shop",
    "postgres://app:ab/{}@db/shop",
    "redis://:{}@cache:6379/0",
    "amqp://guest:{}@mq//",
    "mysql+pymysql://u:{}@h/db",
    "mongodb+srv://u:{}@cluster.example/?retryWrites=true",
    "DATABASE_URL=postgres://u:{}@h/d",
    "host=db user=app password={} dbname=shop",
    "invalid dsn \"host=db password='{}'\"",
    "Server=db;User Id=app;Pwd={};Encrypt=true",
    "postgresql://db/shop?user=app&password={}",
    # URLs
    "GET /v1/items?api_key={}&page=2",
    "https://api.example/x?access_token={}",
    "https://{}{}@git.example/x.git",
    "for url: /callback?code=1&client_secret={}#top",
    "X-Amz-Signature={}&X-Amz-Date=1",
    # headers
    "Authorization: Bearer {}",
    "authorization: Basic {}",
    "Proxy-Authorization: Digest {}",
    "curl -H 'Authorization: Bearer {}' https://api.example",
    "{{'Authorization': 'Bearer {}'}}",
    "{{b'authorization': b'Bearer {}'}}",
    "[(b'host', b'x'), (b'x-api-key', b'{}')]",
    "Headers([('x-api-key', '{}'), ('accept', '*/*')])",
    "Cookie: a=1; session={}",
    "Set-Cookie: sid={}; Path=/; HttpOnly",
    "X-Api-Key: {}",
    "X-Amz-Security-Token: {}",
    "sent Bearer {} and got 401",
    # values of telling names
    '{{"password":"{}","user":"bob"}}',
    '{{"user": {{"secret_key": "{}"}}}}',
    '{{"password": "a \\"quoted {}\\" one"}}',
    '"{{\\"password\\": \\"{}\\"}}"',
    '"{{\\"password\\": \\"a\\\\\\"{}\\"}}"',
    "{{'token': '{}'}}",
    "{{'token': b'{}'}}",
    "login(user='bob', password='{}')",
    "Settings(smtp_password='{}', port=25)",
    "password: {}",
    "password={}",
    "password => {}",
    "DB_PASS={}",
    "db_pass: {}",
    "SMTP_AUTH='{}'",
    "PGPASSWORD={} psql",
    "AWS_SECRET_ACCESS_KEY={}",
    "apiKey={}",
    "client.secret={}",
    "<password>{}</password>",
    "secrets=['a', ('b', '{}')]",
    "credentials={{'a': {{'b': 'x}}', 'c': '{}'}}}}",
    # command lines
    "pg_dump --password {} shop",
    "pg_dump --password={} shop",
    "pg_dump --password '{}' shop",
    "java -Dspring.datasource.password={} -jar x.jar",
    "Command '['pg_dump', '--password', '{}', 'shop']' returned non-zero exit status 1.",
    "Command '['deploy', '--token={}']' timed out",
]
"""{} is where the secret stands."""


@pytest.mark.spec("K1")
@pytest.mark.parametrize("where", LEAKS)
def test_a_secret_is_masked_where_it_stands(where: str) -> None:
    masked = Redactor().text(where.format(*[SECRET] * where.count("{}")))

    assert SECRET not in masked
    assert MASK in masked


@pytest.mark.spec("K1")
@pytest.mark.parametrize("where", LEAKS)
def test_masking_it_again_changes_nothing(where: str) -> None:
    masked = Redactor().text(where.format(*[SECRET] * where.count("{}")))

    assert Redactor().text(masked) == masked


@pytest.mark.spec("K1")
@pytest.mark.parametrize("where", [one for one in LEAKS if "<" not in one])
def test_a_secret_is_masked_when_the_text_was_cut_behind_it(where: str) -> None:
    """By whoever quoted only the beginning. (User info ends with its ``@``; without it, it could be a port.)"""
    text = where.format(*[SECRET] * where.count("{}"))
    end = text.rindex(SECRET) + len(SECRET)
    if text[end : end + 1] == "@":
        end += 1

    masked = Redactor().text(text[:end])

    assert SECRET not in masked


@pytest.mark.spec("K1")
def test_what_stands_around_a_secret_stays_readable() -> None:
    redact = Redactor().text

    assert redact(f"login(user='bob', password='{SECRET}')") == f"login(user='bob', password='{MASK}')"
    assert redact(f"postgresql://app:{SECRET}@db:5432/shop") == f"postgresql://app:{MASK}@db:5432/shop"
    assert redact(f"GET /v1?api_key={SECRET}&page=2") == f"GET /v1?api_key={MASK}&page=2"
    assert redact(f"pg_dump --password {SECRET} shop") == f"pg_dump --password {MASK} shop"
    assert json.loads(redact(json.dumps({"password": SECRET, "n": 1}))) == {"password": MASK, "n": 1}


@pytest.mark.parametrize(
    "harmless",
    [
        "the order 4711 was not found",
        "invalid token: expired",
        "password: must have at least 8 characters",
        "password: field required",
        "Basic authentication failed",
        "secretary: Smith",
        "KeyError: 'name'",
        "https://example.com:8080/users/@bob?page=2",
        "see https://example.com/a@b",
        "bob@example.com",
        "token=None, password=''",
        "password=%s",
        "retry in 30 s (attempt 2 of 5)",
        "2026-11-30T12:00:00+00:00 order 1234567890123 of 4111111111111112",
        "x bypass=full compass: north",
        "key=value, author=bob, tokens_used=",
        "",
    ],
)
def test_what_is_no_secret_stays(harmless: str) -> None:
    assert Redactor().text(harmless) == harmless


@pytest.mark.spec("K1")
def test_values_under_telling_keys_are_masked_whole() -> None:
    given = {
        "user": "bob",
        "password": SECRET,
        "PIN": 1234,
        "db": {"dsn": f"postgres://u:{SECRET}@h/d", "api-key": ["a", SECRET], "apiKey": {"x": SECRET}},
        "headers": [["Authorization", SECRET], ("x-api-key", SECRET), ["accept", "*/*"]],
        "token": None,
        "secret": True,
        "session": "",
        "raw": b"password=" + SECRET.encode(),
        f"redis://:{SECRET}@h": 1,
        "n": [1, 2.5, 4111111111111111],
    }

    masked = Redactor().value(given)

    assert SECRET not in repr(masked)
    assert masked["user"] == "bob"
    assert masked["password"] == masked["PIN"] == masked["db"]["api-key"] == masked["db"]["apiKey"] == MASK
    assert masked["headers"] == [["Authorization", MASK], ["x-api-key", MASK], ["accept", "*/*"]]
    assert (masked["token"], masked["secret"], masked["session"]) == (None, True, "")
    assert masked["n"] == [1, 2.5, MASK]
    assert given["password"] == SECRET
    assert Redactor().value(masked) == masked


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    "spelling",
    ["p&ss wörd/7", "p%26ss%20w%C3%B6rd%2F7", "p%26ss+w%C3%B6rd%2F7", "p%26ss%20w%C3%B6rd/7", "p&ss w\\u00f6rd/7"],
)
def test_a_live_secret_is_masked_in_every_spelling(spelling: str) -> None:
    redactor = Redactor(secrets=["p&ss wörd/7"])

    assert redactor.text(f"plain words {spelling} and more") == f"plain words {MASK} and more"
    assert "rd" not in repr(redactor)


@pytest.mark.spec("K1")
def test_a_secret_may_be_learned_later_and_one_too_short_is_left_out() -> None:
    redactor = Redactor()
    redactor.learn("my dog's name", "abc", "")

    assert redactor.text("my dog's name is abc") == f"{MASK} is abc"
    assert redactor.text("e is not masked") == "e is not masked"


@pytest.mark.spec("K1")
def test_of_two_secrets_the_longer_is_masked_first() -> None:
    assert Redactor(secrets=["hunter", "hunter22"]).text("hunter22") == MASK


@pytest.mark.spec("K1")
def test_keys_patterns_and_the_hook_are_the_users() -> None:
    redactor = Redactor(keys=["iban", "Birth-Day"], patterns=[r"\bC-\d{4}\b", re.compile("bob")], hook=str.upper)

    told = redactor.text("iban=DE1234 birth_day: 1.1.1970 C-1234 bob C-12345")

    assert told == f"iban={MASK} birth_day: {MASK} {MASK} {MASK} C-12345".upper()
    assert redactor.value({"IBAN": 7}) == {"IBAN": MASK}


def raises(_: str) -> str:
    raise RuntimeError("broken")


@pytest.mark.spec("K1")
@pytest.mark.parametrize("hook", [raises, lambda _: None, lambda _: 7, lambda _: Lying("x")], ids=range(4))
def test_a_hook_that_fails_hides_the_text(hook: Any) -> None:
    redactor = Redactor(hook=hook)

    assert redactor.text("order 7") == "[hidden: the redaction hook failed]"
    assert redactor.value({"a": ["order 7"]}) == {
        "[hidden: the redaction hook failed]": ["[hidden: the redaction hook failed]"]
    }


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"secrets": "abc"}, "redact: secrets must be a list of texts, not str"),
        ({"keys": b"abc"}, "redact: keys must be a list of texts, not bytes"),
        ({"patterns": 7}, "redact: patterns must be a list of texts, not int"),
        ({"keys": ["a"]}, "redact: keys must be names of at least 3 letters, not 'a'"),
        ({"keys": [7]}, "redact: keys must be names of at least 3 letters, not 7"),
        ({"patterns": ["("]}, "redact: patterns must be regular expressions: "),
        ({"patterns": [b"a"]}, "redact: patterns must be regular expressions over text, not bytes"),
        ({"patterns": [None]}, "redact: patterns must be regular expressions: "),
        ({"hook": "upper"}, "redact: hook must be a function from text to text, not str"),
    ],
)
def test_what_can_never_work_is_refused_by_name(fields: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        Redactor(**fields)


@pytest.mark.spec("K1", "R8")
@pytest.mark.parametrize("kind", HOSTILE, ids=lambda kind: "class")
def test_whatever_is_given_it_never_raises(kind: type[BaseException]) -> None:
    redactor = Redactor(secrets=[SECRET])

    assert type(redactor.text(kind("x"))) is str  # type: ignore[arg-type]
    assert type(redactor.value({"a": kind("x")})["a"]) is str
    assert redactor.text(Lying(f"password={SECRET}")) == f"password={MASK}"
