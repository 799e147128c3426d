"""Who saw a run of the harness, each on its own: the clients, the bodies, the database's log, the faults, the end."""
