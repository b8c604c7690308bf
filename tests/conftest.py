"""What all tests share."""

pytest_plugins = ("jobboard.testing.counting",)
