"""The table of edges and the labels: every pair of states is either a way or refused."""

from __future__ import annotations

import re
from itertools import product

import pytest

from fencepost.cli import jobs as jobs_command
from fencepost.domain.states import ACTIVE, EDGES, LABELS, TERMINAL, State, allowed, diagram, table
from fencepost.sql.catalog import Catalog

QUEUED, RUNNING = State.QUEUED, State.RUNNING
SUCCEEDED, FAILED, CANCELLED = State.SUCCEEDED, State.FAILED, State.CANCELLED
SKIPPED, IN_DOUBT = State.SKIPPED, State.IN_DOUBT

WAYS: dict[State | None, set[State | None]] = {
    None: {QUEUED},
    QUEUED: {QUEUED, RUNNING, SKIPPED, FAILED, CANCELLED},
    RUNNING: {QUEUED, SUCCEEDED, FAILED, CANCELLED, SKIPPED, IN_DOUBT},
    SUCCEEDED: {QUEUED, None},
    FAILED: {QUEUED, None},
    CANCELLED: {QUEUED, None},
    SKIPPED: {QUEUED, None},
    IN_DOUBT: {QUEUED, SUCCEEDED, FAILED, CANCELLED},
}
"""Written here a second time, from the contract, so that an edge that slips into the table is noticed."""

PLACES: tuple[State | None, ...] = (None, *State)


@pytest.mark.spec("L1")
def test_there_are_seven_states_by_these_names() -> None:
    assert set(State) == {"queued", "running", "succeeded", "failed", "cancelled", "skipped", "in_doubt"}
    assert {"queued", "running"} == ACTIVE
    assert not ACTIVE & TERMINAL
    assert set(State) == ACTIVE | TERMINAL


@pytest.mark.spec("L1")
def test_labels_are_in_the_order_of_the_contract() -> None:
    assert LABELS == ("lost", "recovered", "retrying", "scheduled", "parked", "paused")


@pytest.mark.spec("L1")
def test_the_queries_label_in_the_same_order() -> None:
    """The first that fits wins there too: a recovered job that waits for its time is shown as recovered."""
    catalog = Catalog()
    view = next(
        part for one in catalog.migrations() for part in one.text.split(";") if "CREATE VIEW fencepost.jobs " in part
    )

    for text in (view, catalog.statement("insight/counts")):
        given = [label for label in re.findall(r"(?i)\bthen\s+'(\w+)'", text) if label in LABELS]
        assert set(given) == set(LABELS)
        assert [label for label in given if label != "lost"] == list(LABELS[1:])


@pytest.mark.spec("L1")
def test_the_command_line_knows_every_label() -> None:
    assert set(LABELS) | set(State) == set(jobs_command.LABELS)


@pytest.mark.spec("L2")
@pytest.mark.parametrize(("before", "after"), list(product(PLACES, PLACES)), ids=str)
def test_each_pair_is_a_way_or_is_refused(before: State | None, after: State | None) -> None:
    assert allowed(before, after) is (after in WAYS[before])


@pytest.mark.spec("L2")
@pytest.mark.parametrize("state", sorted(TERMINAL - {IN_DOUBT}))
def test_what_has_ended_comes_back_only_by_a_resubmission(state: State) -> None:
    """Never by a worker, a reaper or a leader."""
    names = {edge.name for edge in EDGES if edge.before == state and edge.after is not None}
    who = {edge.who for edge in EDGES if edge.before == state and edge.after is not None}

    assert names == {"resubmit"}
    assert who == {"caller, operator"}


@pytest.mark.spec("L7")
def test_what_is_in_doubt_is_moved_by_a_reconciler_or_a_person_and_never_purged() -> None:
    ways = [edge for edge in EDGES if edge.before == IN_DOUBT]

    assert {edge.name for edge in ways} == {"resolve"}
    assert {edge.who for edge in ways} == {"reconciler, operator", "operator"}
    assert all("audit" in edge.sets for edge in ways)
    assert not allowed(IN_DOUBT, None)


@pytest.mark.spec("L6")
def test_skipped_is_never_retried_nor_turned_into_a_failure() -> None:
    assert {edge.after for edge in EDGES if edge.before == SKIPPED} == {QUEUED, None}
    assert not allowed(SKIPPED, FAILED)


@pytest.mark.spec("L2", "C3")
def test_only_a_claim_starts_a_run() -> None:
    into = [edge for edge in EDGES if edge.after == RUNNING]

    assert [edge.name for edge in into] == ["claim"]
    assert "run_count + 1" in into[0].sets
    assert "lease token" in into[0].sets


@pytest.mark.spec("L2")
def test_each_edge_says_who_when_and_what_it_ends() -> None:
    assert all(edge.name and edge.who and edge.when for edge in EDGES)
    assert len({(edge.name, edge.before, edge.after) for edge in EDGES}) == len(EDGES)
    ends = [e for e in EDGES if e.before == RUNNING and e.after in TERMINAL - {IN_DOUBT} and "rescue" not in e.name]
    assert len(ends) == 4
    assert all("finished_at" in edge.sets and "unique key" in edge.sets for edge in ends)


def test_the_diagram_and_the_table_show_every_edge() -> None:
    lines = diagram().splitlines()

    shown = {match.groups() for line in lines if (match := re.fullmatch(r"    (\S+) --> (\S+): .+", line))}

    assert lines[0] == "stateDiagram-v2"
    assert shown == {(e.before or "[*]", e.after or "[*]") for e in EDGES}
    assert all(edge.name in diagram() for edge in EDGES)
    assert len(table().splitlines()) == len(EDGES) + 2
