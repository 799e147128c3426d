"""Every operation fails once at each of its calls to the database, in each way that can happen there.

SPEC Q2, Q5, C1, C3, W4, W6, S3: afterwards its caller goes on as documented, and nothing is lost or done twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from points import clerks, enqueuing, leading, operating, working
from points.injector import WAYS
from points.operations import AWAIT, Counted, Operation, World, count, explore

OPERATIONS = [
    *enqueuing.OPERATIONS,
    *operating.OPERATIONS,
    *working.OPERATIONS,
    *leading.OPERATIONS,
    *clerks.OPERATIONS,
]
NODES = [
    pytest.param(operation, way, id=f"{operation.name} | {way}")
    for operation, way in itertools.product(OPERATIONS, (*WAYS, AWAIT))
    if way not in operation.spared and (operation.is_async or way != AWAIT)
]


@pytest.mark.timeout(300)
@pytest.mark.spec("Q2", "Q3", "Q5", "C1", "C3", "W4", "W6", "S3")
@pytest.mark.parametrize(("operation", "way"), NODES)
def test_no_fault_at_any_point_breaks_a_promise(
    world: World,
    operation: Operation,
    way: str,
    counts: dict[str, Counted],
    record_property: Callable[[str, object], None],
) -> None:
    if operation.name not in counts:
        counts[operation.name] = count(world, operation)

    found = explore(world, operation, way, counts[operation.name])

    record_property("points", found.points)
    assert found.wrong == [], found.show()
