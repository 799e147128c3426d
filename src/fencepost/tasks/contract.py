"""The contract of a task's payload, made once from the function's signature (SPEC Q7).

There is one set of accepted payloads: the enqueuer turns the arguments into JSON and validates that *text* with exactly
the validation that the run will apply to the row. A call that is accepted is therefore readable at the run, by the
same code. The validation is pydantic's strict one for JSON: ``"7"`` and ``7.0`` are no int and ``7`` is no str, while
everything JSON has no type for is carried losslessly: datetimes, dates, UUIDs, Decimals, enums, sets, tuples, bytes
(base64), dataclasses and models come back typed.

A default is applied at the run and not stored, so that a later release may change it for pending jobs; a task with
``data="snapshot"`` stores its defaults at enqueue.
"""

from __future__ import annotations

import collections.abc
import difflib
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, get_origin

import typing_extensions
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic_core import PydanticSerializationError, to_jsonable_python

from fencepost.domain.limits import PAYLOAD_BYTES
from fencepost.domain.payload import encode
from fencepost.errors import PayloadError, UsageError
from fencepost.tasks.context import JobContext
from fencepost.tasks.options import OPTIONS

_CONFIG = ConfigDict(extra="forbid", val_json_bytes="base64", ser_json_bytes="base64")
_ONE_WAY = (
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.Callable,
)
_EMPTY = inspect.Parameter.empty
_AS_IT_IS = frozenset({str, int, bool, type(None)})
_SHOWN_FAULTS = 3


class Contract:
    """What one task accepts. ``context_name`` is the parameter that receives the JobContext, if any."""

    __slots__ = ("_adapter", "_defaults", "_names", "_needed", "_signature", "_what", "context_name", "task")

    def __init__(self, task: str, function: Callable[..., Any], *, store_defaults: bool = False) -> None:
        """Read the signature. Raises UsageError, naming the parameter, for whatever can never be a payload."""
        self.task = task
        parameters = _parameters(task, function)
        contexts = [p.name for p in parameters if p.annotation is JobContext]
        if len(contexts) > 1:
            message = f"task {task!r}: only one parameter can be the JobContext, not {' and '.join(contexts)}"
            raise UsageError(message)
        self.context_name = contexts[0] if contexts else None
        own = [p for p in parameters if p.name != self.context_name]
        self._signature = inspect.Signature(_orderly(own))
        self._names = dict.fromkeys(p.name for p in own)
        self._needed = frozenset(p.name for p in own if p.default is _EMPTY)
        self._what = f"the payload of {task}"
        self._adapter = _adapter(task, own)
        self._defaults = {p.name: p.default for p in own if store_defaults and p.default is not _EMPTY}

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The arguments as the JSON text of the row.

        Raises PayloadError, naming the argument, for a missing, unknown or wrongly typed one, for what JSON or
        PostgreSQL cannot hold, and beyond 256 KiB. Values are never quoted in the message.
        """
        given = {**self._defaults, **self._bind(args, kwargs)}
        plain = {name: value if type(value) in _AS_IT_IS else self._plain(name, value) for name, value in given.items()}
        text = encode(plain, limit=PAYLOAD_BYTES, what=self._what)
        self._validate(text)
        return text

    def decode(self, text: str) -> dict[str, Any]:
        """The typed arguments for the handler, from the row's JSON text. Raises PayloadError (PAYLOAD_INVALID)."""
        return self._validate(text)

    def schema(self) -> dict[str, Any]:
        """The contract as JSON Schema (2020-12)."""
        return self._adapter.json_schema(mode="validation")

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        unknown = kwargs.keys() - self._names.keys()
        if unknown:
            raise PayloadError(self._unknown(next(name for name in kwargs if name in unknown)))
        if not args and self._needed <= kwargs.keys():
            return dict(kwargs)
        try:
            return dict(self._signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            message = f"{self.task}: {error}; {self._takes()}"
            raise PayloadError(message) from None

    def _unknown(self, name: str) -> str:
        if name == self.context_name:
            return f"{self.task}: argument {name!r} is the JobContext; the worker gives it, not the enqueuer"
        if name in OPTIONS:
            return f"{self.task}: {name!r} is an option, no argument: using({name}=...).enqueue(...)"
        near = difflib.get_close_matches(name, self._names, 1)
        hint = f"did you mean {near[0]!r}?" if near else self._takes()
        return f"{self.task}: unknown argument {name!r}; {hint}"

    def _takes(self) -> str:
        return f"it takes ({', '.join(self._names)})" if self._names else "it takes no arguments"

    def _plain(self, name: str, value: Any) -> Any:
        try:
            return to_jsonable_python(value, bytes_mode="base64", round_trip=True, inf_nan_mode="constants")
        except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
            message = (
                f"{self.task}: argument {name!r} cannot be stored as JSON ({_reason(error)}); pass its id or plain data"
            )
            raise PayloadError(message) from None

    def _validate(self, text: str) -> dict[str, Any]:
        try:
            typed: dict[str, Any] = self._adapter.validator.validate_json(text, strict=True)
        except ValidationError as error:
            raise PayloadError(self._faults(error)) from None
        return typed

    def _faults(self, error: ValidationError) -> str:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        said = "; ".join(_fault(f["type"], f["loc"], f["msg"]) for f in faults[:_SHOWN_FAULTS])
        more = f"; and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
        return f"{self.task}: {said}{more}"


def _fault(kind: str, loc: tuple[int | str, ...], said: str) -> str:
    if not loc:
        return f"the payload is not valid: {said}"
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc[1:])
    if kind == "missing" and len(loc) == 1:
        return f"argument {loc[0]!r} is missing"
    if kind == "extra_forbidden" and len(loc) == 1:
        return f"argument {loc[0]!r} is unknown"
    return f"argument '{loc[0]}{path}': {said[:1].lower()}{said[1:]}"


def _reason(error: Exception) -> str:
    said = str(error).split("\n", 1)[0]
    if isinstance(error, UnicodeError):
        return "text with a lone surrogate"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return said[:1].lower() + said[1:160]


def _parameters(task: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        message = (
            f"task {task!r}: an annotation cannot be resolved ({error}); import the name at module level, "
            "not under TYPE_CHECKING or inside a function"
        )
        raise UsageError(message) from None
    except (TypeError, ValueError, SyntaxError) as error:
        message = f"task {task!r}: its signature cannot be read ({error})"
        raise UsageError(message) from None
    for p in signature.parameters.values():
        _refuse_shape(task, p)
    return list(signature.parameters.values())


def _refuse_shape(task: str, p: inspect.Parameter) -> None:
    if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
        stars = "*" if p.kind is p.VAR_POSITIONAL else "**"
        message = f"task {task!r}: {stars}{p.name} is no contract; name each argument"
        raise UsageError(message)
    if p.kind is p.POSITIONAL_ONLY:
        message = f"task {task!r}: parameter {p.name!r} is positional-only; payloads are named, so remove the '/'"
        raise UsageError(message)
    if p.annotation is _EMPTY:
        message = f"task {task!r}: parameter {p.name!r} needs a type annotation (Any accepts every JSON value)"
        raise UsageError(message)
    if (get_origin(p.annotation) or p.annotation) in _ONE_WAY:
        message = f"task {task!r}: parameter {p.name!r} is of a type that cannot be stored; use list[...] or an id"
        raise UsageError(message)


def _orderly(own: list[inspect.Parameter]) -> list[inspect.Parameter]:
    # A JobContext between the others may leave "no default after a default" behind: those become keyword-only.
    seen_default = False
    orderly = []
    for p in own:
        if p.kind is p.POSITIONAL_OR_KEYWORD and seen_default and p.default is _EMPTY:
            orderly.append(p.replace(kind=p.KEYWORD_ONLY))
            continue
        seen_default = seen_default or p.default is not _EMPTY
        orderly.append(p)
    return sorted(orderly, key=lambda p: p.kind)


def _adapter(task: str, own: list[inspect.Parameter]) -> TypeAdapter[dict[str, Any]]:
    for p in own:
        _check_type(task, p)
    fields: dict[str, Any] = {}
    for p in own:
        fields[p.name] = p.annotation if p.default is _EMPTY else typing_extensions.NotRequired[p.annotation]
    make: Any = typing_extensions.TypedDict
    arguments = make("Arguments", fields)
    arguments.__pydantic_config__ = _CONFIG
    return TypeAdapter(arguments)


def _check_type(task: str, p: inspect.Parameter) -> None:
    """Try the type alone, so that a refusal names the parameter; JSON Schema finds what can be read but not stored."""
    try:
        with warnings.catch_warnings(action="ignore"):
            adapter = TypeAdapter(p.annotation)
            schemas = [adapter.json_schema(mode="validation"), adapter.json_schema(mode="serialization")]
    except PydanticUndefinedAnnotation as error:
        message = f"task {task!r}: the type of parameter {p.name!r} mentions {error.name!r}, which is not defined"
        raise UsageError(message) from None
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError, ValueError, RecursionError):
        message = (
            f"task {task!r}: parameter {p.name!r} has a type that cannot be stored as JSON "
            f"({inspect.formatannotation(p.annotation)}); use plain data, a dataclass, a pydantic model, or an id"
        )
        raise UsageError(message) from None
    if _holds_secret(schemas):
        message = f"task {task!r}: parameter {p.name!r} is a secret, and payloads are readable; pass its name instead"
        raise UsageError(message)


def _holds_secret(schema: object) -> bool:
    # pydantic dumps SecretStr as stars: the handler would receive the stars.
    if isinstance(schema, dict):
        if schema.get("format") == "password" and schema.get("writeOnly"):
            return True
        return any(_holds_secret(value) for value in schema.values())
    return isinstance(schema, list) and any(_holds_secret(item) for item in schema)
