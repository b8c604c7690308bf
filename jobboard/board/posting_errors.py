"""The errors of postings that a board refuses."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.posting_plan import REPLACEABLE
from jobboard.backends.rows import NewJob, Posted, PostOutcome, Refused
from jobboard.errors import AlreadyPosted, BoardUnavailable, InvalidPosting, JobBoardError, NotFound


def error_of_posting(new: NewJob, answer: Posted) -> AlreadyPosted | InvalidPosting | NotFound:
    """Return why a posting, and so its batch, was refused."""
    row = answer.row
    if answer.outcome is PostOutcome.NO_PARENT:
        return NotFound(f"there is no job {answer.parent}, which a posting {new.name!r} is to wait for")
    if answer.outcome is PostOutcome.OTHER_LANE:
        lanes = [row.lane, None if new.ties is None else new.ties.lane]
        return InvalidPosting(
            f"job {row.uuid} has the key {new.key!r} and the lane {lanes[0]!r}; it can't be replaced by one of the "
            f"lane {lanes[1]!r}: cancel it first",
            path="lane",
        )
    state = f"{row.state}; it was asked to stop" if row.cancel_asked else str(row.state)
    modes = '"keep" or "replace"' if row.state in REPLACEABLE else '"keep"'
    return AlreadyPosted(
        f"a live job {new.name!r} has the key {new.key!r}: {row.uuid} ({state}); "
        f"if_exists (--if-exists) can be {modes}",
        uuid=row.uuid,
    )


def error_of_refusal(posts: Sequence[NewJob], refused: Refused) -> JobBoardError:
    """Return why a claim goes on, since what was to be posted with its end was refused."""
    for new, answer in zip(posts, refused.posts, strict=False):
        if answer.outcome.refuses_batch:
            return error_of_posting(new, answer)
    return BoardUnavailable("the graph that was to be posted was given up, since its parts came too slowly; try again")
