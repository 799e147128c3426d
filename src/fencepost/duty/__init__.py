"""What is done once per cluster: one elected leader rescues, promotes, expires, prunes and vacuums (SPEC S3)."""
