"""What the kit's functions are called with."""

from __future__ import annotations

from jobboard.board import JobBoard


def check_board(board: object) -> JobBoard:
    if not isinstance(board, JobBoard):
        raise TypeError(
            f"board must be a JobBoard, not {type(board).__name__}; for coroutines make the app's of it: "
            "AsyncJobBoard(board)"
        )
    return board
