"""Which tasks this program knows, by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from fencepost.errors import UsageError
from fencepost.tasks.task import Task


class Registry:
    """Name to task. A name belongs to one function for life, so a second registration is refused."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[Any, Any]] = {}

    def __iter__(self) -> Iterator[Task[Any, Any]]:
        return iter(self._tasks.values())

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, name: object) -> bool:
        return name in self._tasks

    def add(self, task: Task[Any, Any]) -> None:
        """Take up ``task``. Raises UsageError if its name is taken, saying by what."""
        first = self._tasks.get(task.name)
        if first is not None:
            message = f"task name {task.name!r} is taken by {first.origin}; give {task.origin} another name"
            raise UsageError(message)
        self._tasks[task.name] = task

    def get(self, name: str) -> Task[Any, Any] | None:
        """The task, or None: a worker leaves jobs of unknown tasks to one that knows them (SPEC Q8)."""
        return self._tasks.get(name)

    def need(self, name: str) -> Task[Any, Any]:
        """The task; UsageError with the nearest name if there is none."""
        task = self._tasks.get(name)
        if task is None:
            near = difflib.get_close_matches(name, self._tasks, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "; is the module that declares it imported?"
            message = f"no task is named {name!r}{hint}"
            raise UsageError(message)
        return task

    def versions(self) -> dict[str, int]:
        """Name to contract version: what a worker tells the database it can run."""
        return {name: task.policy.version for name, task in self._tasks.items()}
