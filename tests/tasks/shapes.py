"""Types that the tests pass through a payload; at module level, as a user's would be."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel


class Colour(enum.Enum):
    RED = 1
    GREEN = "g"


@dataclass
class Line:
    sku: str
    count: int


class Order(BaseModel):
    id: int
    placed: datetime
    lines: list[Line]
    labels: set[str] = set()
