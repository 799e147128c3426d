"""For tests: a proxy that makes the trouble of networks, and `torture`, which proves the promises under real faults."""
