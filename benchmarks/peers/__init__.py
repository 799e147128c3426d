"""The same work done by fencepost and by its peers, in turn, on one machine: ``make bench-peers``."""
