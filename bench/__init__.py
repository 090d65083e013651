"""Benchmarks of Headway against other libraries: one file per claim; `make bench` runs them."""
