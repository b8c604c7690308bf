"""The log of conductors."""

from __future__ import annotations

import logging
from typing import Any


class SteadyLogger(logging.LoggerAdapter[logging.Logger]):
    """Says what can be said: a log handler that raises ends none of the threads that claims depend on."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        try:
            super().log(level, msg, *args, **kwargs)
        except Exception:  # nosec B110: the next line says why
            # There is no other place to say it.
            pass


logger = SteadyLogger(logging.getLogger("jobboard.conductor"), {})
