"""Benchmarks that anybody can run on their own machine: fencepost beside the bare SQL that it is built on."""
