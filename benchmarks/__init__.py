"""Measures the board beside its stores' own limits; run ``python -m benchmarks --help``."""

import sys
from pathlib import Path

# The servers of the tests.
sys.path.append(str(Path(__file__).parent.parent / "functional_tests"))
