"""Flows (ordered statements), rows to values and back, and what each database error means."""
