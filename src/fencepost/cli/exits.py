"""What a command ends with. Scripts may rely on these numbers.

  0  done; a worker or leader that was asked to stop and did
  1  it could not be done: unknown job, refused action, database away, unexpected error; a worker whose database
     was away for longer than the ttl, or with a body that refused to stop
  2  wrong use: an option, argument, setting or variable; nothing was done
  3  fencepost's schema is missing, older or newer than this program, or has a broken index
  4  the database is not PostgreSQL as fencepost needs it
  5  the embedded server cannot be found, started or reached
130  Ctrl-C ended a command that was not a worker or leader
141  the reader of our output went away (``| head``)
"""

from __future__ import annotations

DONE = 0
FAILED = 1
USAGE = 2
SCHEMA = 3
UNSUPPORTED = 4
EMBEDDED = 5
INTERRUPTED = 130
READER_GONE = 141
