"""A plugin of pytest, loaded before all else: checks that stand in helpers explain themselves as those in tests do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "client", "cli", "duty", "embedded", "failures", "incidents", "points", "servers", "sql", "store", "worker"
)
