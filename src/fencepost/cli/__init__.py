"""The terminal: ``fencepost COMMAND``. Formats for a person or, with ``--json``, for a program."""
