"""What stands for a shard that a program can't reach, since it names no store for it."""

from __future__ import annotations

from typing import Any, cast

from jobboard.backends.base import Backend
from jobboard.errors import BoardUnavailable


class _Missing:
    """Fails at every request, with the same words."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __getattr__(self, name: str) -> Any:
        raise BoardUnavailable(self._text)


def missing(board: str, is_gone: bool) -> Backend:
    """Return it: of a shard that was removed, or of one that was added after the program had named the stores."""
    advice = (
        f"it was removed from board {board!r}"
        if is_gone
        else f"it was added to board {board!r}, and this program does not name its store: restart it with all of them"
    )
    return cast(Backend, _Missing(advice))
