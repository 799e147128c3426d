"""What an operation reads does not grow with what is finished, scheduled, parked or paused (SPEC C2), whatever the
statistics say: taken when the tables were nearly empty, or fresh; with plans made for the values, and without them."""

from __future__ import annotations

import pytest

from servers import Database
from sql.plans import FILL, growth, measured, stock


@pytest.mark.slow
@pytest.mark.spec("C2", "A4")
def test_what_is_over_or_must_wait_makes_nothing_slower(each_version: Database) -> None:
    with each_version.connect() as conn:
        stock(conn)
        before = measured(conn)

        conn.execute(FILL.encode())
        stale = measured(conn)
        conn.execute("analyze")
        fresh = measured(conn)

    assert growth(before, stale) == {}
    assert growth(before, fresh) == {}
