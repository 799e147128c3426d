"""P2 to P6 judged from what the storage said and showed, without the model: both could have the same fault in mind."""

from __future__ import annotations

from collections import Counter
from typing import Any

from model.things import Fence

HOLDS = {"queued", "running", "in_doubt"}


class Promises:
    """Watches one history. ``seen`` is what the storage showed after the last move."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {"jobs": {}}
        self.claims = Counter[tuple[int, int]]()
        self.ends = Counter[tuple[int, int]]()
        self.turns = Counter[int]()

    def queued(self, id_: int) -> None:
        """It came into the queue: enqueued, resubmitted, resolved, or handed back."""
        self.turns[id_] += 1

    def claimed(self, id_: int, run_count: int) -> None:
        """P3: a run is given out once, and only so often as its job came into the queue."""
        self.claims[id_, run_count] += 1
        assert self.claims[id_, run_count] == 1, f"P3: run {run_count} of job {id_} was given out twice"
        runs = sum(count for (job, _), count in self.claims.items() if job == id_)
        assert runs <= self.turns[id_], f"P3: job {id_} ran {runs} times and was queued {self.turns[id_]} times"

    def accepted(self, fence: Fence, became: str | None) -> None:
        """P2: an outcome is taken once, from the run that held the lease until now."""
        self.ends[fence.id, fence.run_count] += 1
        assert self.ends[fence.id, fence.run_count] == 1, f"P2: {fence} ended twice"
        assert self.is_current(fence), f"P2: {fence} did not hold its lease"
        if became == "queued":
            self.queued(fence.id)

    def is_current(self, fence: Fence) -> bool:
        """Whether this was the whole fence of a running job when the storage was looked at last."""
        row = self.seen["jobs"].get(str(fence.id))
        return bool(row) and (row["state"], row["run_count"], row["worker"]) == (
            "running",
            fence.run_count,
            fence.token,
        )

    def are_stale(self, fences: list[Fence]) -> bool:
        return not any(self.is_current(fence) for fence in fences)

    def look(self, seen: dict[str, Any], *, by_the_stale: bool = False) -> None:
        """P4: one holder of a key. P5: one row of a job_id. P6: who has lost his lease changes nothing."""
        rows = seen["jobs"].values()
        keys = Counter((row["task"], row["unique_key"]) for row in rows if row["unique_key"] and row["state"] in HOLDS)
        assert max(keys.values(), default=1) == 1, f"P4: two hold one key: {keys}"
        names = Counter(row["job_id"] for row in rows)
        assert max(names.values(), default=1) == 1, f"P5: one job_id, two rows: {names}"
        if by_the_stale:
            for part in seen.keys() - {"runs", "workers"}:
                assert seen[part] == self.seen[part], f"P6: a stale run changed {part}"
            assert [run[:-1] for run in seen["runs"].values()] == [run[:-1] for run in self.seen["runs"].values()], "P6"
        self.seen = seen
