"""The public surface is a page: names sorted and lazy, sync and async equal, the error tree as drawn."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest

import fencepost
from fencepost import errors
from fencepost.app import App
from fencepost.client.aio import AsyncClient
from fencepost.client.sync import Client
from fencepost.tasks.task import Bound, Task


def test_every_public_name_exists_and_the_list_is_sorted() -> None:
    assert fencepost.__all__ == sorted(fencepost.__all__)
    assert dir(fencepost) == fencepost.__all__
    for name in fencepost.__all__:
        assert getattr(fencepost, name) is not None

    with pytest.raises(AttributeError, match="no attribute 'Ap'"):
        fencepost.Ap  # noqa: B018


def test_importing_the_package_loads_none_of_its_parts() -> None:
    """The supervisor imports fencepost.worker.supervisor: that must not bring pydantic, click or tasks along."""
    shown = "[m for m in sys.modules if m in ('pydantic', 'click', 'psycopg') or m.startswith('fencepost.')]"
    program = f"import fencepost, sys; print(*{shown})"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.split() == ["fencepost.version"]


def verbs(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(f)
        for name, f in vars(kind).items()
        if inspect.isfunction(f) and not name.startswith("_")
    }


def test_the_async_client_has_the_sync_clients_verbs_with_the_same_parameters() -> None:
    sync, aio = verbs(Client), verbs(AsyncClient)

    assert sync.keys() == aio.keys()
    for name, signature in sync.items():
        told = str(signature).replace("psycopg.Connection", "psycopg.AsyncConnection")
        assert told == str(aio[name]), name
        assert inspect.iscoroutinefunction(vars(AsyncClient)[name]), name
        assert not inspect.iscoroutinefunction(vars(Client)[name]), name


def test_each_async_method_beside_a_sync_one_has_its_parameters() -> None:
    for kind, pairs in {App: ["enqueue_many", "close"], Task: ["enqueue"], Bound: ["enqueue"]}.items():
        for name in pairs:
            sync = list(inspect.signature(getattr(kind, name)).parameters)
            assert list(inspect.signature(getattr(kind, f"a{name}")).parameters) == sync, (kind, name)


def test_the_error_tree_is_the_one_in_the_docstring() -> None:
    drawn: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^    ([│├└─ ]*)([A-Z]\w+Error)\b", line)
        if found:
            depth = len(found[1]) // 4
            path[depth:] = [found[2]]
            drawn[found[2]] = path[depth - 1] if depth else None

    real = {
        name: (kind.__base__.__name__ if kind is not errors.FencepostError else None)
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.FencepostError) and kind.__base__ is not None
    }

    assert drawn == real


def test_every_public_function_says_what_it_promises() -> None:
    for kind in (App, Client, AsyncClient, Task, Bound):
        for name, function in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_") and function.__module__.startswith("fencepost"):
                assert function.__doc__, f"{kind.__name__}.{name}"
