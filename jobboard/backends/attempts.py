"""The former place of some rules, for the stores that do not use :mod:`jobboard.backends.lifecycle` yet."""

from jobboard.backends.lifecycle import expired, is_used_up, last_error_after, used_up

__all__ = ["expired", "is_used_up", "last_error_after", "used_up"]
