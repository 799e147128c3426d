"""What helps to test jobs: ``torture``, a harness that shows what a database and workers do under real faults."""
