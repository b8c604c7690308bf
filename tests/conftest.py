"""What all tests share."""

import gc

from hypothesis import HealthCheck, settings

pytest_plugins = ("jobboard.testing.counting", "pytester")

# A busy machine is no failure: no test is timed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """Let Python search no more for garbage among what was imported and collected: a tenth of the tests' time."""
    gc.collect()
    gc.freeze()
