"""What is certain of a call that takes several requests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

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
