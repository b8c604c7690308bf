"""What is certain of a call that takes several requests, and which part of a list was found."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator

from jobboard.errors import BoardUnavailable, ReplyLost


@contextlib.contextmanager
def after_a_change(was_changed: Callable[[], object] = lambda: True) -> Iterator[None]:
    """Let a failure of the block say that nothing is certain of the call, since a part of it has taken effect.

    :param was_changed: whether one has; asked when the block has failed.
    """
    try:
        yield
    except BoardUnavailable as error:
        if isinstance(error, ReplyLost) or not was_changed():
            raise
        raise ReplyLost(f"whether all of this took effect is unknown: {error}") from error


#: How many names an error has at most.
_MAX_NAMED = 20


def named(names: Collection[str]) -> str:
    """Return names for an error: the first ones, and how many more there are."""
    shown = ", ".join(repr(name) for name in sorted(names)[:_MAX_NAMED])
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{shown or 'none'}{more}"


def incomplete_list(names: Collection[str]) -> BoardUnavailable:
    """Return the error for a list of boards whose time was over before it was complete."""
    return BoardUnavailable(f"not all boards were found before the time was over, only these: {named(names)}")
