"""Logs: the job's fields on every line, redacted, readable or JSON, and never an exception (SPEC O4, K1)."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

import pytest

from fencepost import logs
from fencepost.domain.redact import Redactor
from fencepost.errors import UsageError

SECRET = "hunter2hunter2"


class Output:
    """What was logged, as text and as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self.stream = io.StringIO()
        self.handler = logs.QuietHandler(self.stream)
        redactor = Redactor(secrets=(SECRET,))
        self.handler.setFormatter(logs.JsonFormatter(redactor) if as_json else logs.TerminalFormatter(redactor))
        self.logger = logging.Logger("shop.mail", logging.DEBUG)  # noqa: LOG001 - apart from every other logger
        self.logger.addHandler(self.handler)

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


@pytest.fixture
def terminal() -> Output:
    return Output(as_json=False)


@pytest.fixture
def as_json() -> Output:
    return Output(as_json=True)


@pytest.fixture
def job() -> Iterator[None]:
    token = logs.bind("mail:7", "mail.send", 2, 3)
    yield
    logs.unbind(token)


@pytest.mark.spec("O4")
def test_every_record_of_a_run_names_its_job(as_json: Output, job: None) -> None:
    as_json.logger.info("sent to %s", "someone", extra={"size": 12})

    (entry,) = as_json.entries
    assert entry["message"] == "sent to someone"
    assert (entry["job_id"], entry["task"], entry["attempt"], entry["run"]) == ("mail:7", "mail.send", 2, 3)
    assert entry["size"] == 12
    assert entry["level"] == "INFO"
    assert entry["logger"] == "shop.mail"
    assert entry["time"].endswith("+00:00")


@pytest.mark.spec("O4")
def test_jobs_beside_each_other_do_not_mix_their_names(as_json: Output) -> None:
    async def handler(name: str) -> None:
        logs.bind(name, "t", 1, 1)
        await asyncio.sleep(0)
        as_json.logger.info("from %s", name)
        thread = threading.Thread(target=copy_context().run, args=(as_json.logger.info, "from %s", name))
        thread.start()
        await asyncio.to_thread(thread.join)

    async def both() -> None:
        await asyncio.gather(handler("a"), handler("b"))

    asyncio.run(both())

    assert len(as_json.entries) == 4
    assert all(entry["message"] == f"from {entry['job_id']}" for entry in as_json.entries)
    assert logs.job_fields.get() is None


def test_a_terminal_line_is_readable(terminal: Output, job: None) -> None:
    terminal.logger.warning("slow: %d s", 4)

    assert " WARNING shop.mail: slow: 4 s  [job_id=mail:7 task=mail.send attempt=2 run=3]\n" in terminal.text


@pytest.mark.spec("K1", "O4")
@pytest.mark.parametrize("kind", ["terminal", "as_json"])
def test_no_secret_reaches_a_line(kind: str, request: pytest.FixtureRequest) -> None:
    out: Output = request.getfixturevalue(kind)

    try:
        raise ConnectionError(
            f"postgresql://shop:{SECRET}@db/shop refused; Authorization: Bearer abcdef0123456789abcdef"
        )
    except ConnectionError:
        out.logger.exception("password=%s failed", "s3cr3t-value", extra={"password": "s3cr3t-value", "note": SECRET})

    for secret in (SECRET, "s3cr3t-value", "abcdef0123456789abcdef"):
        assert secret not in out.text
    assert "ConnectionError" in out.text
    assert "test_logs.py" in out.text, "the traceback is kept"


def test_the_filter_redacts_for_the_handlers_of_others(job: None) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(job_id)s %(message)s"))
    handler.addFilter(logs.RedactingFilter(Redactor(secrets=(SECRET,))))
    logger = logging.Logger("theirs")  # noqa: LOG001 - apart from every other logger
    logger.addHandler(handler)

    try:
        raise ValueError(SECRET)
    except ValueError:
        logger.exception("with %s", SECRET)

    assert SECRET not in stream.getvalue()
    assert stream.getvalue().startswith("mail:7 with ")
    assert "Traceback" in stream.getvalue()


@pytest.mark.spec("K1")
def test_the_filter_redacts_what_an_earlier_handler_has_formatted(job: None) -> None:
    stream = io.StringIO()
    theirs = logging.StreamHandler(stream)
    theirs.addFilter(logs.RedactingFilter(Redactor(secrets=(SECRET,))))
    logger = logging.Logger("theirs")  # noqa: LOG001 - apart from every other logger
    logger.addHandler(logging.StreamHandler(io.StringIO()))
    logger.addHandler(theirs)

    try:
        raise ValueError(SECRET)
    except ValueError:
        logger.exception("failed", stack_info=True)
    logger.handle(logging.makeLogRecord({"levelno": 40, "msg": "moved", "stack_info": f"stack of {SECRET}"}))

    assert "Traceback" in stream.getvalue()
    assert "stack of" in stream.getvalue()
    assert SECRET not in stream.getvalue()


@pytest.mark.spec("K1")
@pytest.mark.parametrize("kind", ["terminal", "as_json"])
def test_no_half_of_a_secret_is_left_where_masking_makes_a_text_short(
    kind: str, request: pytest.FixtureRequest
) -> None:
    out: Output = request.getfixturevalue(kind)
    long = 'password="' + "x" * 30_000 + '" '
    head = (long + "y" * (32_768 - len(long) - 8))[: 32_768 - 8] + " " + SECRET
    tail = SECRET + " " + "y" * 2_000 + " " + long + "z" * (32_768 - len(long) - 2_002 - len(SECRET) + 7)

    out.logger.info(head)
    out.logger.handle(logging.makeLogRecord({"levelno": 40, "msg": "ended", "exc_text": tail}))

    assert not any(SECRET[at : at + 6] in out.text for at in range(len(SECRET) - 5))


def test_a_payload_cannot_forge_a_line_or_paint_the_terminal(terminal: Output) -> None:
    terminal.logger.info("name: %s", "x\n12:00:00.000 ERROR root: forged \x1b[31m", extra={"tag": "a\nb"})

    assert len(terminal.text.splitlines()) == 1
    assert "\x1b" not in terminal.text


class Broken:
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize("kind", ["terminal", "as_json"])
def test_no_secret_hides_in_an_object_or_at_a_cut(kind: str, request: pytest.FixtureRequest) -> None:
    out: Output = request.getfixturevalue(kind)

    out.logger.info("%s", "x" * (16_384 - 8) + SECRET, extra={"thing": Holder(), "deep": {"list": [Holder()]}})

    assert SECRET[:6] not in out.text


class Holder:
    """Shows a secret when printed."""

    def __repr__(self) -> str:
        return f"Holder({SECRET})"


@pytest.mark.parametrize("kind", ["terminal", "as_json"])
def test_logging_never_raises(kind: str, request: pytest.FixtureRequest) -> None:
    out: Output = request.getfixturevalue(kind)

    class Worse(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    out.logger.info("%d", "not a number")
    out.logger.info("%s", Broken())
    out.logger.info(Broken())
    out.logger.info("value", extra={"thing": Broken(), "nan": float("nan"), "bad": "\ud800"})
    out.logger.info("x" * 1_000_000)
    try:
        raise Worse
    except Worse:
        out.logger.exception("worse")
    out.logger.info("after")

    assert "after" in out.text
    assert len(out.text) < 100_000
    out.stream.close()
    out.logger.info("into a closed stream")


def test_configure_replaces_its_own_handler_only() -> None:
    root = logging.getLogger()
    before = [handler for handler in root.handlers if not isinstance(handler, logs.QuietHandler)]
    level = root.level
    first, second = io.StringIO(), io.StringIO()
    try:
        logs.configure(level="debug", stream=first)
        logs.configure(json=True, level="WARNING", stream=second)

        logging.getLogger("shop").info("quiet")
        logging.getLogger("shop").warning("loud")

        assert first.getvalue() == ""
        assert [json.loads(line)["message"] for line in second.getvalue().splitlines()] == ["loud"]
        assert all(handler in root.handlers for handler in before)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        logging.captureWarnings(False)


def test_an_unknown_level_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(UsageError, match="log level 'LOUD' is unknown: use one of DEBUG, INFO"):
        logs.configure(level="LOUD")
