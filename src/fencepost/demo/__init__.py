"""The demo: real rows, real jobs, a killed worker, a restarted database, and the proof read from outside logs."""
