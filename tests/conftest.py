"""What all tests share."""

from hypothesis import settings

pytest_plugins = ("jobboard.testing.counting",)

# A busy machine is no failure: no test is timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
