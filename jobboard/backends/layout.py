"""The number of the layout that a board has in its store; SQL has the version of its schema instead."""

from __future__ import annotations

from jobboard.errors import BoardUnavailable, RequestRefused

#: The layout that this code reads and writes. Each change that earlier clients can't share a board with raises it.
LAYOUT = 4

#: The number as a store keeps it.
STORED_LAYOUT = str(LAYOUT).encode()

#: What a store has instead while an upgrade from the first layout is under way: clients of all layouts refuse it, and
#: the upgrade that follows one that was killed goes on. An earlier jobboard may have left the first of these.
_INTERRUPTED = tuple(f"1-{layout}".encode() for layout in range(2, LAYOUT + 1))
UPGRADING = _INTERRUPTED[-1]


def check_layout(board: str, where: str, found: bytes) -> None:
    """Refuse a board of another layout; to be called before anything of the board is read or changed.

    :param where: the store, as errors name it.
    :param found: the number that the store has.
    :raises RequestRefused: it is not ours.
    """
    if found == STORED_LAYOUT:
        return
    number = found.decode(errors="replace")
    what_to_do = "use the version of jobboard that the board's other programs use"
    if _is_earlier(found):
        what_to_do += ", or stop them all and run `jobboard upgrade`"
    raise RequestRefused(
        f"board {board!r} on {where} has layout {number}, this jobboard reads and writes layout {LAYOUT}; {what_to_do}"
    )


def must_upgrade(board: str, where: str, found: bytes) -> bool:
    """Whether a board has an earlier layout, or one of whose upgrade was interrupted.

    :raises RequestRefused: it has a later one.
    """
    if _is_earlier(found):
        return True
    check_layout(board, where, found)
    return False


def check_stopped(board: str, where: str, clients: int) -> None:
    """Refuse to upgrade a board that clients use: they read its number only when they connect.

    :raises BoardUnavailable: there are any.
    """
    if clients:
        raise BoardUnavailable(
            f"{clients} programs use board {board!r} on {where}; stop them before you upgrade it, and wait until "
            "those that were killed count as gone"
        )


def _is_earlier(found: bytes) -> bool:
    return found in _INTERRUPTED or (found.isdigit() and int(found) < LAYOUT)
