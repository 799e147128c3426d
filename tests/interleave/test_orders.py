"""Two or three sessions in every order, by whole calls and by marked lines inside the functions, against a real server.

SPEC L1, L2, C1, C3, C6, Q3, Q4, Q11, D4. Random load finds such orders seldom; here each is played.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from fencepost.sql.catalog import Catalog
from interleave.exploring import Found, Plan, explore, plans, prepare
from interleave.moves import ALL
from servers import Database, Server
from sql.hands import write_function

PAIRS = [*itertools.combinations_with_replacement(ALL, 2)]
TRIPLES = [
    ("succeed", "rescue", "claim"), ("retry", "rescue", "claim"), ("beat", "rescue", "succeed"), ("beat", "rescue", "claim"),
    ("cancel", "rescue", "succeed"), ("cancel", "rescue", "retry"), ("cancel", "claim", "promote"),
    ("checkpoint", "rescue", "claim"), ("start", "rescue", "claim"), ("enqueue a", "rescue", "succeed"),
    ("enqueue b", "rescue", "succeed"), ("enqueue a", "enqueue b", "succeed"), ("enqueue a", "enqueue b", "rescue"),
    ("enqueue a", "enqueue b", "purge"), ("enqueue a", "resubmit", "purge"), ("enqueue b", "resubmit", "purge"),
    ("enqueue b", "resubmit", "discard"), ("resubmit", "purge", "discard"), ("enqueue a", "enqueue a", "purge"),
    ("enqueue a", "enqueue a", "enqueue b"), ("promote", "claim", "succeed"), ("limit", "claim", "succeed"),
    ("pause", "claim", "succeed"), ("lead", "lead too", "lead"),
]  # fmt: skip
GATE = 60
"""Orders of each pair or triple in the ordinary run, chosen by chance; --nightly plays all."""


@pytest.fixture(scope="module")
def steppable(server: Server, template: str) -> Database:
    made = Database(server.dsn_of(server.create(template)), Catalog(), server)
    prepare(made)
    return made


def chosen(names: tuple[str, ...], everything: bool) -> list[Plan]:
    found = list(plans(*names, most=None if len(names) == 2 else 5))
    return found if everything or len(found) <= GATE else random.sample(found, GATE)


def show(found: Found) -> str:
    lines = found.wrong[:5]
    return f"{len(found.wrong)} of {found.played} orders went wrong:\n" + "\n".join(lines)


@pytest.mark.spec("L1", "L2", "C1", "C3", "C6", "Q3", "Q4", "Q11")
@pytest.mark.parametrize("names", [*PAIRS, *TRIPLES], ids=" | ".join)
def test_no_order_breaks_a_promise(
    steppable: Database,
    names: tuple[str, ...],
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    found = explore(steppable.dsn, chosen(names, request.config.getoption("--nightly")))

    record_property("orders", found.played)
    print(f"{found.played} orders, {len(found.traces)} of them different, {found.waited} with a wait; {found.answers}")
    assert found.wrong == [], show(found)


def test_the_pairs_and_triples_are_many() -> None:
    assert len(PAIRS) >= 60
    assert len(TRIPLES) >= 20
    assert sum(len(chosen(names, False)) for names in [*PAIRS, *TRIPLES]) >= 5000
    assert sum(len(chosen(names, True)) for names in [*PAIRS, *TRIPLES]) >= 20_000


class Mutant(NamedTuple):
    """A function broken in one place, and the moves whose orders show it."""

    name: str
    function: str
    right: str
    wrong: str
    moves: tuple[str, ...]


FENCE = "AND r.run_count = p.rc AND r.token = p.token"
MUTANTS = [
    Mutant("no fence", "_settle", FENCE, "", ("succeed", "rescue", "claim")),
    Mutant("no key", "_enqueue_one", "CONTINUE WHEN NOT FOUND;", "", ("enqueue a", "enqueue b")),
    Mutant("no second look", "_enqueue_one", "THEN 5 ELSE 1 END", "THEN 1 ELSE 1 END", ("enqueue a", "enqueue b")),
    Mutant("a key is kept", "_settle", "DELETE FROM fencepost.held h WHERE h.id = ANY (v_keyed);", "NULL;",
           ("succeed", "enqueue b")),
    Mutant("a rescue does not lock", "rescue_v1", "FOR UPDATE SKIP LOCKED) s", ") s", ("beat", "rescue")),
    Mutant("a cancel is dropped", "_settle", "WHEN a.cancel_at IS NOT NULL THEN 'cancelled'", "",
           ("cancel", "rescue", "retry")),
    Mutant("a lease of leadership is nothing", "lead_v1", "AND v_row.expires_at > v_now THEN RETURN", "AND false THEN RETURN",
           ("lead", "lead too")),
]  # fmt: skip


@pytest.mark.spec("D4")
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_broken_function_is_noticed(steppable: Database, mutant: Mutant) -> None:
    originals = {file.name: file.text for file in Catalog(breakpoints=True).functions()}
    right = originals[mutant.function]
    assert mutant.right in right, "the mutant no longer fits the function: write it anew"

    with steppable.connect() as conn:
        write_function(conn, right.replace(mutant.right, mutant.wrong), originals)
        try:
            found = explore(steppable.dsn, chosen(mutant.moves, everything=True), until_wrong=True)
        finally:
            write_function(conn, right, originals)

    assert found.wrong != []
