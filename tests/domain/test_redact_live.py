"""Which live secrets a program holds, by the names and the forms of its variables."""

from __future__ import annotations

import pytest

from fencepost.config import check_dsn, passwords_of
from fencepost.domain.redact import Redactor
from fencepost.domain.redact_live import passwords_in, secrets_in
from fencepost.errors import UsageError

SECRET = "zwickau77plum"


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("DB_PASS", "{}"),
        ("SMTP_PASS", "{}"),
        ("STRIPE_KEY", "{}"),
        ("STRIPE_KEY_LIVE", "{}"),
        ("SESSION_SECRET", "{}"),
        ("VAULT_TOKEN", "{}"),
        ("REDIS_URL", "redis://:{}@cache/0"),
        ("BROKER", "amqp://app:{}@mq/vhost"),
        ("BROKERS", "amqp://app:other@mq1,amqp://app:{}@mq2"),
        ("DATABASE", "postgresql+asyncpg://app:{}@db/shop"),
        ("PRISMA", "postgresql://app:{}@db/shop?schema=public&pgbouncer=true"),
        ("QUERY", "postgresql://db/shop?user=app&password={}&sslmode=require"),
        ("SSL", "host=db sslpassword={}"),
        ("QUOTED", "host=db password='{}' dbname=shop"),
        ("ADO", "Server=db;Password={};Encrypt=true"),
        ("BARE_AT", "postgresql://app:x@{}@db/shop"),
    ],
)
def test_a_secret_is_learned_by_its_name_or_its_form(name: str, form: str) -> None:
    assert SECRET in secrets_in({name: form.format(SECRET)})


@pytest.mark.spec("K1")
@pytest.mark.parametrize("password", ["hunter@Secret99", "ter12/secret", "a?b#secret", "plus+secret", "per%40secret"])
def test_no_part_of_an_unquoted_password_is_shown(password: str) -> None:
    redactor = Redactor(secrets=passwords_in(f"mysql://app:{password}@db/shop"))

    shown = redactor.text(f"cannot use {password} at db; no host '{password.rpartition('@')[2]}@db'")

    assert "ecret" not in shown
    assert "@db'" in shown


def test_a_percent_encoded_password_is_learned_both_ways() -> None:
    assert passwords_in("postgresql://app:hunter%40Secret99@db/shop") == {"hunter%40Secret99", "hunter@Secret99"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KEYBOARD", "german"),
        ("MONKEY", "banana"),
        ("SSL_KEY_FILE", "server.pem"),
        ("SSL_KEY", "/etc/ssl/server.pem"),
        ("BYPASS", "everything"),
        ("HOMEPAGE", "https://example.com:8080/a"),
        ("LS_COLORS", "*.tar=01;31:*.tgz=01;31"),
        ("DB_PASS", "short"),
    ],
)
def test_what_is_no_secret_is_not_learned(name: str, value: str) -> None:
    assert secrets_in({name: value}) == ()


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    "dsn", ["postgresql://app:hunter@Secret99@localhost/x", "postgres://app:123/ter2secret@localhost/x"]
)
def test_a_dsn_whose_password_libpq_would_take_for_a_host_is_refused_and_not_shown(dsn: str) -> None:
    with pytest.raises(UsageError, match="--dsn.*percent-encode its password") as caught:
        check_dsn("--dsn", dsn)

    assert "ecret" not in str(caught.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://app:p@db/shop?application_name=a@b",
        "postgresql://app:p@db?application_name=a@b",
        "postgresql:///shop?host=/run/a@b",
        "postgresql://one,two:5433/shop",
        "host=@abstract dbname=shop",
        "postgresql://app:a?b@db/shop",
        "postgresql://app:hunter%40Secret99@db/shop",
    ],
)
def test_other_signs_are_no_trouble(dsn: str) -> None:
    assert check_dsn("--dsn", dsn) == dsn


def test_a_dsn_of_libpq_is_read_as_libpq_does() -> None:
    assert "a b'cdef" in passwords_of(r"host=db password='a b\'cdef'")
