"""Every error that fencepost raises, under one root.

    FencepostError
    ├── UsageError            the caller's call or configuration is wrong; the message names the field and what to do
    │   └── PayloadError      arguments that do not fit the task's contract or cannot be stored
    ├── DatabaseError
    │   ├── OutageError       the database is away or busy; trying again later may work
    │   ├── SchemaError       fencepost's schema is missing, older or newer than this program
    │   └── UnsupportedDatabaseError   it answers like PostgreSQL but is not
    ├── LeaseLostError        this run no longer owns its job; nothing was written
    └── EmbeddedServerError   the embedded server cannot be found, started or reached

What a handler raises to steer its own job (``Snooze``, ``Skip`` ...) is control flow, not an error: `fencepost.domain.control`.
"""


class FencepostError(Exception):
    """The root: ``except FencepostError`` catches everything of ours and nothing else.

    ``exit_code`` is what a command ends with when this reaches a person.
    """

    exit_code: int = 1


class UsageError(FencepostError):
    """A call or setting that can never work; raised before anything was done."""

    exit_code = 2


class PayloadError(UsageError):
    """Arguments that do not fit the task's contract, or that PostgreSQL could not hold."""


class DatabaseError(FencepostError):
    """Something between us and the database."""


class OutageError(DatabaseError):
    """The database is away, restarting, read-only or overloaded. The same call may work later."""

    exit_code = 1


class SchemaError(DatabaseError):
    """The schema is missing, older or newer than this program needs; the message says which command mends it."""

    exit_code = 3


class UnsupportedDatabaseError(DatabaseError):
    """A look-alike that lacks what the guarantees rest on; the message names what."""

    exit_code = 4


class LeaseLostError(FencepostError):
    """Another run owns the job now, or it is over. Nothing was written."""


class EmbeddedServerError(FencepostError):
    """The embedded PostgreSQL could not be found, started or reached; the message says what to install or look at."""

    exit_code = 5
