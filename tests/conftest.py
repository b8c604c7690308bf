"""What all tests share."""

from hypothesis import HealthCheck, settings

pytest_plugins = ("collected_tests", "jobboard.testing.counting", "pytester")

# A busy machine is no failure: no test is timed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
