"""Warnings of what is so for a whole process, and is not worth a line for each board that connects."""

from __future__ import annotations

import logging

#: How many texts are remembered; later ones are not logged.
_MAX_REMEMBERED = 1000

_warned: set[str] = set()


def warn_once(logger: logging.Logger, message: str, *args: object) -> None:
    """Log a warning, unless this process has logged the same text."""
    text = message % args if args else message
    if text not in _warned and len(_warned) < _MAX_REMEMBERED:
        _warned.add(text)
        logger.warning(message, *args)
