"""Suites made by others, run as they are; what may not get worse is counted in `counters.toml`."""
