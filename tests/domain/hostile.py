"""Exceptions that do what no exception should."""

from __future__ import annotations

from typing import Any, NoReturn


class Broken(Exception):
    """Neither its text nor its repr can be read."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Silent(Exception):
    """Its text is no text."""

    def __str__(self) -> Any:
        return None  # noqa: PLE0307

    def __repr__(self) -> Any:
        return 7


class Endless(Exception):
    """Its text asks for itself."""

    def __str__(self) -> str:
        return f"around: {self}"

    def __repr__(self) -> str:
        return f"around: {self!r}"


class Huge(Exception):
    """Fifty megabytes of text."""

    def __str__(self) -> str:
        return "x" * 50_000_000


class Lying(str):
    """A text that lies about itself."""

    __slots__ = ()

    def __len__(self) -> int:
        return 1

    def __getitem__(self, key: Any) -> Any:
        raise RuntimeError("not for you")

    def __str__(self) -> str:
        return self

    def encode(self, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError("not for you")


class Liar(Exception):
    def __str__(self) -> str:
        return Lying("the truth " * 5_000)


class Exits(Exception):
    """Its text ends the program."""

    def __str__(self) -> str:
        raise SystemExit(3)

    def __repr__(self) -> str:
        raise KeyboardInterrupt


class Trapped(Exception):
    """Every property raises, and not only an Exception."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return Trapped
        raise KeyboardInterrupt(name)

    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__


class Untold(type):
    @property
    def __module__(cls) -> Any:  # type: ignore[override]
        raise RuntimeError("nowhere")


class Nameless(Exception, metaclass=Untold):
    """Its class has no module."""


class BarelyAnException(BaseException):
    """Not caught by ``except Exception``."""


class Mute(ExceptionGroup[Exception]):
    """A group that hides its members."""

    @property
    def exceptions(self) -> Any:
        raise RuntimeError("none of yours")


HOSTILE: tuple[type[BaseException], ...] = (Broken, Silent, Endless, Huge, Liar, Exits, Trapped, Nameless)
