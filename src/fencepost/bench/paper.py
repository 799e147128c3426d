"""Figures on paper: one line of JSON, or a table with machine and settings below it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def show(figures: Mapping[str, Any], *, as_json: bool) -> None:
    """Print them."""
    if as_json:
        print(json.dumps(figures))
        return
    flat = dict(figures)
    sides, settings = flat.pop("sides", {}), flat.pop("settings", {})
    _facts({name: value for name, value in flat.items() if not isinstance(value, dict | list)})
    for name, side in sides.items():
        print(f"\n{name}")
        _facts({f"  {what}": _spread(value) for what, value in side.items()})
    for name, value in flat.items():
        if isinstance(value, dict):
            print(f"\n{name}")
            _facts({f"  {what}": _spread(one) for what, one in value.items()})
    print("\nsettings")
    _facts({f"  {name}": value for name, value in settings.items()})


def _facts(facts: Mapping[str, Any]) -> None:
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        if value is not None:
            print(f"{name:<{width}}  {_number(value) if isinstance(value, int | float) else value}")


def _spread(value: Any) -> Any:
    if isinstance(value, dict) and {"median", "least", "most"} <= value.keys():
        return f"{_number(value['median'])} ({_number(value['least'])} to {_number(value['most'])})"
    if isinstance(value, list) and len(value) == 2:
        return f"{_number(value[0])} to {_number(value[1])}"
    return value


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,}"
