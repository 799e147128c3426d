"""Logs: stdlib logging with the job's fields on every line, readable on a terminal, JSON by option (SPEC O4).

    configure()                                  a program of ours: one handler on stderr
    configure(json=True, level="DEBUG")          one JSON object a line
    token = bind("mail:7", "mail.send", 2, 3)    every record of this context now names the job
    unbind(token)

Nothing leaves unredacted: messages, fields and tracebacks pass the `Redactor` (SPEC K1). A record that cannot be
formatted becomes a line that says so, and a stream that is gone loses the line: a log call never raises and never ends
a job. A library must not configure logging, so only our commands call `configure`; in your own program attach
`TerminalFormatter`, `JsonFormatter` or `RedactingFilter` to your handlers.
"""

from __future__ import annotations

import json as _json
import logging
import sys
import traceback
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol, TextIO

from fencepost.domain.limits import NOTE_CHARS
from fencepost.domain.redact import Redactor
from fencepost.errors import UsageError

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_LIMIT = 16_384
"""Characters of one message or traceback that are kept; an error of 50 MB must not become a log line."""


class JobFields(NamedTuple):
    """What a line says of the run that wrote it."""

    job_id: str
    task: str
    attempt: int
    run: int


job_fields: ContextVar[JobFields | None] = ContextVar("fencepost_job_fields", default=None)
"""The run that the current context belongs to; the worker sets it around a handler."""


def bind(job_id: str, task: str, attempt: int, run: int) -> Token[JobFields | None]:
    """Name the run in every record of this context from now on; give the token to `unbind`."""
    return job_fields.set(JobFields(job_id, task, attempt, run))


def unbind(token: Token[JobFields | None]) -> None:
    """Undo `bind`. A token of another context (a callback after the run) is ignored: logging never raises."""
    try:
        job_fields.reset(token)
    except (ValueError, RuntimeError):
        job_fields.set(None)


class RedactingFilter(logging.Filter):
    """For handlers of your own: redacts a record's message, fields and traceback in place, and adds the job's fields.

    Put it on a *handler* (a logger's filters do not see what its children log). Records are shared between handlers,
    so the others see the redacted text too.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        super().__init__()
        self._redactor = redactor or Redactor()

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record; always True."""
        record.msg, record.args = _message(record, self._redactor), None
        if record.exc_info or record.exc_text:  # also the text that an earlier handler's formatter has left
            record.exc_text = _traceback(record, self._redactor)
        if record.stack_info:
            record.stack_info = _stack(record, self._redactor)
        for name, value in _extras(record).items():
            setattr(record, name, _safe_value(value, self._redactor, name))
        fields = job_fields.get()
        for name, value in fields._asdict().items() if fields else ():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


class _Formatter(logging.Formatter):
    """Redacts, and answers a constant line where the record cannot be formatted."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        super().__init__()
        self.redactor = redactor or Redactor()

    def format(self, record: logging.LogRecord) -> str:
        """The record as text. Never raises."""
        try:
            return self.render(record)
        except Exception as error:  # noqa: BLE001 - a log line must not end a job
            return self.constant(record, f"a record could not be formatted ({type(error).__name__})")

    def render(self, record: logging.LogRecord) -> str:
        """The record as text; may raise."""
        return _message(record, self.redactor)

    def constant(self, record: logging.LogRecord, trouble: str) -> str:
        """What to write instead of a record that cannot be formatted."""
        return f"{record.levelname} {record.name}: {trouble}"

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """The job's fields and the caller's ``extra``, redacted."""
        found: dict[str, Any] = {}
        current = job_fields.get()
        if current is not None:
            found.update(current._asdict())
        found.update(_extras(record))
        return {name: _safe_value(value, self.redactor, name) for name, value in found.items()}


class TerminalFormatter(_Formatter):
    """``12:00:01.250 WARNING fencepost.worker: message  [job_id=mail:7 task=mail.send attempt=2 run=3]``, local time.

    Control characters are shown as escapes, so that no payload can forge a line or paint the terminal.
    """

    def render(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it."""
        when = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S.%f")[:-3]
        line = f"{when} {record.levelname:<7} {record.name}: {_one_line(_message(record, self.redactor))}"
        fields = self.fields(record)
        if fields:
            line += "  [" + " ".join(f"{name}={_one_line(_plain(value))}" for name, value in fields.items()) + "]"
        for block in (_traceback(record, self.redactor), _stack(record, self.redactor)):
            if block:
                line += "\n" + "\n".join("    " + _one_line(text) for text in block.splitlines())
        return line


class JsonFormatter(_Formatter):
    """One JSON object a line.

    ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, ``pid``, the job's fields, ``extra`` fields, and for
    errors ``error`` (its type) and ``traceback``. Values that JSON does not know are written as text.
    """

    def render(self, record: logging.LogRecord) -> str:
        """One line without a raw line break in it."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record, self.redactor),
            "pid": record.process,
        }
        for name, value in self.fields(record).items():
            entry.setdefault(name, value)
        if record.exc_info and record.exc_info[0] is not None:
            entry["error"] = record.exc_info[0].__name__
        blocks = {"traceback": _traceback(record, self.redactor), "stack": _stack(record, self.redactor)}
        entry.update({name: block for name, block in blocks.items() if block})
        return _json.dumps(entry)

    def constant(self, record: logging.LogRecord, trouble: str) -> str:
        """The same as JSON, so that the reader's parser does not stumble."""
        return _json.dumps({"level": record.levelname, "logger": record.name, "message": trouble})


class Stream(Protocol):
    """What a handler writes to."""

    def write(self, text: str, /) -> Any:
        """Write the text."""

    def flush(self) -> None:
        """Push it out."""


class QuietHandler(logging.Handler):
    """Writes to a stream; a stream that is closed, full or broken loses the line and nothing else."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self.stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            text = self.format(record) + "\n"
            try:
                self.stream.write(text)
            except UnicodeError:  # a terminal in an old locale
                self.stream.write(text.encode("ascii", "backslashreplace").decode("ascii"))
            self.stream.flush()
        except Exception:  # noqa: BLE001, S110 - a full disk or a closed pipe must not end a job
            pass


def configure(
    *,
    json: bool = False,
    level: str | int = "INFO",
    redactor: Redactor | None = None,
    stream: TextIO | None = None,
) -> logging.Handler:
    """Set up logging for a program of ours: one handler on the root logger, in place of an earlier call's.

    ``level`` is a name (any case) or a number; `UsageError` otherwise. ``stream`` is stderr by default. Handlers that
    others installed stay. Returns the handler.
    """
    number = level_number(level)
    handler = QuietHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter(redactor) if json else TerminalFormatter(redactor))
    root = logging.getLogger()
    for old in [found for found in root.handlers if isinstance(found, QuietHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(number)
    logging.captureWarnings(True)
    return handler


def level_number(level: str | int) -> int:
    """The number of a level; `UsageError` with the names that exist otherwise."""
    if isinstance(level, int) and not isinstance(level, bool):
        return level
    name = str(level).strip().upper()
    if name not in LEVELS:
        raise UsageError(f"log level {str(level)[:40]!r} is unknown: use one of {', '.join(LEVELS)}")
    return int(getattr(logging, name))


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD and not name.startswith("_")}


def _message(record: logging.LogRecord, redactor: Redactor) -> str:
    try:
        text = record.getMessage()
    except Exception as error:  # noqa: BLE001 - wrong arguments, or a broken __str__
        text = f"{_plain(record.msg)} (its arguments cannot be shown: {type(error).__name__})"
    return _head(text, redactor)


def _traceback(record: logging.LogRecord, redactor: Redactor) -> str:
    if record.exc_text:
        return _tail(record.exc_text, redactor)
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    try:
        text = "".join(traceback.format_exception(*record.exc_info)).rstrip()
    except Exception as error:  # noqa: BLE001 - a broken __str__ of the exception
        frames = "".join(traceback.format_tb(record.exc_info[2])).rstrip()
        text = f"{frames}\n{record.exc_info[0]} (its text cannot be shown: {type(error).__name__})"
    return _tail(text, redactor)


def _stack(record: logging.LogRecord, redactor: Redactor) -> str:
    return _tail(record.stack_info, redactor) if record.stack_info else ""


def _safe_value(value: Any, redactor: Redactor, name: str) -> Any:
    """The redacted value, judged together with its name: ``password`` is masked whatever it holds."""
    try:
        masked = redactor.value({name: value})[name]
        _json.dumps(masked, allow_nan=False)
    except Exception:  # noqa: BLE001 - NaN, an object, a broken one, a deep one: its text
        return _head(_plain(value), redactor)
    return masked


def _head(text: str, redactor: Redactor) -> str:
    """The beginning; masked before it is cut, so that no half of a secret is left at the cut."""
    return redactor.text(text)[:_LIMIT]


def _tail(text: str, redactor: Redactor) -> str:
    """The end; of a traceback it says most. Where it is more than a redactor looks at, from a whole line or word on."""
    end = text[-NOTE_CHARS:]
    if len(end) < len(text):
        end = end.partition("\n")[2] or end.partition(" ")[2]
    return redactor.text(end)[-_LIMIT:]


def _plain(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a broken __str__
        return f"<{type(value).__name__}>"


def _one_line(text: str) -> str:
    """Printable characters only; the rest as escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
