"""Imports the user's app by its path, ``module:attribute``."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.app import App


def load(path: str) -> App:
    """The app. Raises UsageError with one sentence for a path that leads nowhere; errors of the import itself pass."""
    module_name, _, attribute = path.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")):
        message = (
            f"the app must be MODULE:APP, such as shop.jobs:app, not {path!r}: {module_name!r} is no module's name"
        )
        raise UsageError(message)
    if "" not in sys.path:
        sys.path.insert(0, "")  # as python -m does: the folder that the command was started in
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(error.name + ".")):
            message = f"the app {path!r} cannot be imported: there is no module {error.name!r} here"
            raise UsageError(message) from None
        raise
    found = getattr(module, attribute, None)
    if found is None:
        message = f"module {module_name!r} has no {attribute!r}; name the App as MODULE:ATTRIBUTE"
        raise UsageError(message)
    if not hasattr(found, "registry") or not hasattr(found, "catalog"):
        message = f"{path!r} is not a fencepost App but {type(found).__name__}"
        raise UsageError(message)
    app: App = found
    return app
