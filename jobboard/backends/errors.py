"""What is certain of a call that takes several requests."""

from __future__ import annotations

from jobboard.errors import BoardUnavailable, ReplyLost


def reply_lost_if(began: bool, error: BoardUnavailable) -> BoardUnavailable:
    """Return the error of a call of several requests: if one before had an effect, nothing is certain of the call."""
    if began and not isinstance(error, ReplyLost):
        return ReplyLost(f"only a part of this is certain: {error}")
    return error
