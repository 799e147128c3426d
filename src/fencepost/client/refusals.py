"""Which error a caller of ours sees."""

from __future__ import annotations

import psycopg

from fencepost.errors import OutageError, SchemaError
from fencepost.store import faults
from fencepost.store.views import JobView

_ENDED = frozenset({"succeeded", "failed", "cancelled", "skipped"})


def caller_error(error: Exception) -> Exception:
    """What to raise out of an enqueue in the caller's transaction.

    The driver's own error where the caller's retry loop must see it (40001, a deadlock, a lost connection); ours where
    a sentence helps more (the schema is missing).
    """
    if isinstance(error, psycopg.Error):
        told = faults.translate(error)
        return told if isinstance(told, SchemaError) else error
    return error


def refuse_unknown_fate(view: JobView | None, job_id: str) -> None:
    """After a repetition that answered "exists": OutageError if the job is over: nobody can say whose end it was."""
    if view is not None and str(view.state) in _ENDED:
        message = (
            f"the connection was lost while job {job_id!r}, which had ended before, was enqueued; "
            "whether it was resubmitted is unknown: enqueue it again to be sure"
        )
        raise OutageError(message)
