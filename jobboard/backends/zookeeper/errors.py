"""kazoo's errors, and the server's codes, as the seam's two errors."""

from __future__ import annotations

from kazoo import exceptions

from jobboard.backends.zookeeper.requests import NO_AUTH
from jobboard.errors import BoardUnavailable, ReplyLost

#: What the server's codes mean when it did nothing, and what to do about it.
_HINTS = {
    NO_AUTH: "this client may not do that; see 'Who may use a board' in the docs of the ZooKeeper board",
    -4: "the connection was lost",
    -6: "it does not know this request; a board needs ZooKeeper 3.6 or newer",
    -8: "it can't make sense of the request",
    -112: "the session has ended",
    -114: "the ACL that the board was given is not valid",
    -115: "it refuses this user and password",
    -118: "the session has moved to another server",
    -119: "it is read-only, since it has lost the others",
    -125: "the quota of this path is used up",
    -127: "it throttles its clients",
}


def unreachable(where: str, why: str) -> BoardUnavailable:
    """Return the error of a request that was not sent."""
    return BoardUnavailable(f"ZooKeeper at {where} can't be reached: {why}")


def no_reply(where: str, why: str) -> ReplyLost:
    """Return the error of a request that was sent, or may have been, and has no reply."""
    return ReplyLost(f"ZooKeeper at {where} did not reply: {why}")


def refused(where: str, code: int) -> BoardUnavailable:
    """Return the error of a request that the server refused: it did nothing."""
    return BoardUnavailable(f"ZooKeeper at {where} refuses: {_HINTS.get(code, 'error')} ({code})")


def missing(path: str) -> BoardUnavailable:
    """Return the error for a board that lacks a znode which every board has."""
    return BoardUnavailable(f"{path} is missing; was the board deleted?")


#: After these it is unknown whether the request was carried out.
_UNKNOWN_OUTCOMES = (
    exceptions.ConnectionLoss,
    exceptions.ConnectionDropped,
    exceptions.SessionExpiredError,
    exceptions.OperationTimeoutError,
    exceptions.ConnectionClosedError,
    exceptions.CancelledError,
)


def from_kazoo(where: str, error: Exception) -> BoardUnavailable:
    """Return what an error of a request means."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, _UNKNOWN_OUTCOMES):
        return no_reply(where, text)
    code = getattr(error, "code", None)
    if isinstance(error, exceptions.KazooException) and isinstance(code, int):
        return refused(where, code)
    return no_reply(where, text)


class Conflict(Exception):
    """Another client was faster, and nothing was changed; ``path`` is what was not as expected."""

    def __init__(self, path: str, code: int) -> None:
        super().__init__(path, code)
        self.path, self.code = path, code
        #: Whether it was to be removed along with a job's change, and was removed by hand before.
        self.is_gone = False
