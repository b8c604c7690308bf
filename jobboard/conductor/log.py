"""The log of conductors."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any


class SteadyLogger(logging.LoggerAdapter[logging.Logger]):
    """Ignores errors of log handlers, which would end a thread that claims depend on."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Keep ``extra`` as it is given."""
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        try:
            super().log(level, msg, *args, **kwargs)
        except Exception:  # nosec B110 # an error of the log can't be logged
            pass


logger = SteadyLogger(logging.getLogger("jobboard.conductor"), {})
#: Whether lines of a level are logged; asked for every job, and the adapter would only call this.
is_logged = logger.logger.isEnabledFor
