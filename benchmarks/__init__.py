"""Measures the board beside its stores' own limits; run ``python -m benchmarks --help``."""
