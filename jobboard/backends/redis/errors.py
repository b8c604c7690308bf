"""Turns redis-py's errors into the two errors of the seam."""

from __future__ import annotations

from redis import exceptions

from jobboard.errors import BoardUnavailable, ReplyLost

LOADING = "it is still loading its data"
NO_RIGHT = "this user lacks a right"
#: How a server says that a command is unknown, renamed, or not for the users of who runs it.
NO_COMMAND = "unknown command"
_RIGHTS_PAGE = "see 'Least rights' in the docs of the Redis board"

#: How a reply begins by which a server says that it did nothing, and what to do about it.
_HINTS = {
    "READONLY": "it is a replica; is a failover going on?",
    "LOADING": LOADING,
    "MASTERDOWN": "it has lost its primary",
    "CLUSTERDOWN": "its cluster is down",
    "MOVED": "the board's slot has moved to another node",
    # Also the class of MOVED.
    "ASK": "the board's slot is moving to another node",
    "TRYAGAIN": "the board's slot is moving to another node",
    # These before NOAUTH: redis-py cuts the first word off them, and gives all of them the same class.
    "WRONGPASS": "it refuses this user and password",
    "invalid username-password pair": "it refuses this user and password",
    "AUTH <password> called without any password": "it has no password; leave it out of the URI",
    "NOAUTH": "it wants a password: redis://:PASSWORD@HOST",
    "NOPERM": f"{NO_RIGHT}; {_RIGHTS_PAGE}",
    "OOM": "it is out of memory (maxmemory); posts go on when jobs are gone from it, or maxmemory is raised",
    "MISCONF": "it can't write to its disk",
    "NOREPLICAS": "too few replicas are connected (min-replicas-to-write)",
    "The user executing the script": f"{NO_RIGHT}; {_RIGHTS_PAGE}",
    # The same, from Redis 8 on.
    "ACL failure in script": f"{NO_RIGHT}; {_RIGHTS_PAGE}",
    "WRONGTYPE": "a key of the board has another type than jobboard gives it; `jobboard check` names it",
    "BUSY": "a script has been running for too long there",
}

#: For these reasons it refuses the first write of a script, or the whole script; a script that has written may go on.
_BEFORE_WRITING = ("OOM", "READONLY", "MISCONF", "NOREPLICAS", "MASTERDOWN")

#: In the reply about a command that failed within a script (7.0: "... script: HASH, on @user_script:LINE.").
_IN_A_SCRIPT = " script: "


def missing_rights(rules: str) -> str:
    """Name the rights that a user lacks, or lacks for the keys and channels of the board."""
    return f"{NO_RIGHT}: {rules} (on the keys and channels of this board); {_RIGHTS_PAGE}"


def unreachable(where: str, error: Exception) -> BoardUnavailable:
    """Nothing was sent."""
    return BoardUnavailable(f"Redis at {where} can't be reached: {_text(error)}")


def reply_lost(where: str, error: Exception) -> ReplyLost:
    """A request was sent, and its reply did not come."""
    return ReplyLost(f"Redis at {where} did not reply: {_text(error)}")


def refused(where: str, error: Exception) -> BoardUnavailable:
    """The server replied by an error: it did nothing, unless a script failed halfway."""
    text = _text(error)
    hint = next((hint for word, hint in _HINTS.items() if text.startswith(word) or _is(error, word)), None)
    why = f"{hint} ({text})" if hint else text
    if _IN_A_SCRIPT in text and not any(_is(error, word) or text.startswith(word) for word in _BEFORE_WRITING):
        return BoardUnavailable(
            f"Redis at {where} stopped a script halfway, of which a part may have been done; "
            f"`jobboard check` finds and repairs what is left of it: {why}"
        )
    return BoardUnavailable(f"Redis at {where} refuses: {why}")


#: redis-py cuts the first word off some replies, and gives them a class instead.
_CLASSES: dict[str, type[Exception]] = {
    "READONLY": exceptions.ReadOnlyError,
    "LOADING": exceptions.BusyLoadingError,
    "MASTERDOWN": exceptions.MasterDownError,
    "CLUSTERDOWN": exceptions.ClusterDownError,
    "ASK": exceptions.AskError,
    "TRYAGAIN": exceptions.TryAgainError,
    "MOVED": exceptions.MovedError,
    "NOAUTH": exceptions.AuthenticationError,
    "NOPERM": exceptions.NoPermissionError,
    "OOM": exceptions.OutOfMemoryError,
}


def is_of_wrong_type(error: BoardUnavailable) -> bool:
    """Whether what :func:`refused` returned is that a key has another type than the command needs."""
    return "(WRONGTYPE " in str(error)


def lacks_replicas(error: Exception) -> bool:
    """Whether a primary refuses to write since too few replicas are connected."""
    return _text(error).startswith("NOREPLICAS")


def _is(error: Exception, word: str) -> bool:
    kind = _CLASSES.get(word)
    return kind is not None and isinstance(error, kind)


def _text(error: Exception) -> str:
    return str(error).strip() or type(error).__name__
