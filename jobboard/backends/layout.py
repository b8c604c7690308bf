"""The number of the layout that a board has in its store; SQL has the version of its schema instead."""

from __future__ import annotations

from jobboard.errors import BoardUnavailable

#: The layout that this code reads and writes. Each change that earlier clients can't share a board with raises it.
LAYOUT = 1

#: The number as a store keeps it.
STORED_LAYOUT = str(LAYOUT).encode()


def check_layout(board: str, where: str, found: bytes) -> None:
    """Refuse a board of another layout; to be called before anything of the board is read or changed.

    :param where: the store, as errors name it.
    :param found: the number that the store has.
    :raises BoardUnavailable: it is not ours.
    """
    if found != STORED_LAYOUT:
        number = found.decode(errors="replace")
        raise BoardUnavailable(
            f"board {board!r} on {where} has layout {number}, this jobboard reads and writes layout {LAYOUT}; "
            "use the version of jobboard that the board's other programs use"
        )
