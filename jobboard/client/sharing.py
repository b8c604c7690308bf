"""Requests of many items: if one does not get through though the store answers, each item has a request of its own."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jobboard.backends.errors import after_a_change
from jobboard.backends.rows import Posted
from jobboard.backends.timelimit import lock_wait, seconds_for_locks
from jobboard.errors import BoardUnavailable, ReplyLost, RowLocked

Primitive = Callable[[Sequence[Any]], Sequence[Any]]

#: The answer to an item, and whether an earlier try may have had the effect.
Answer = tuple[Any, bool]

#: Sends a request until its answer is certain: :meth:`BackendClient.call_until_certain`.
Call = Callable[[Primitive, Sequence[Any]], tuple[Sequence[Any], bool]]

#: Seconds between two tries to change what others have locked, and what one of them takes at most.
_LOCK_PAUSE, _LOCK_TIMEOUT = 0.02, 1.0


@dataclass(frozen=True, slots=True)
class Alone:
    """An item is to be sent by itself, since the request that it shared did not get through.

    ``was_sent``: whether that may have had the effect nevertheless.
    """

    was_sent: bool = False


class SharedRequests:
    """Sends many items of one primitive in one request, and finds out which of them is to blame if that fails.

    :param call: sends a request until its answer is certain.
    :param is_away: whether the store answers nothing at all, after a request failed by this error.
    """

    def __init__(self, call: Call, is_away: Callable[[BoardUnavailable], bool]) -> None:
        self._call = call
        self._is_away = is_away

    def together(self, primitive: Primitive, items: Sequence[Any]) -> list[Answer | Alone]:
        """Send all in one request, which does not wait for what others have locked; return the answer to each.

        :raises BoardUnavailable: the store is away, or the only item is refused.
        """
        try:
            with lock_wait(0.0):
                answers, repeated = self._call(primitive, items)
        except RowLocked:
            return [Alone()] * len(items)
        except BoardUnavailable as error:
            if len(items) == 1 or self._is_away(error):
                raise
            return [Alone(isinstance(error, ReplyLost))] * len(items)
        except Exception:
            # One item may be to blame, which the others must not pay for.
            if len(items) == 1:
                raise
            return [Alone()] * len(items)
        if len(items) > 1 and any(_is_taken(answer) for answer in answers):
            # Nothing of the batch was posted.
            return [Alone()] * len(items)
        return [(answer, repeated) for answer in answers]

    def alone(self, primitive: Primitive, item: Any, sent: Alone) -> Answer:
        """Send one item that has shared a request in vain.

        :raises BoardUnavailable: it did not get through.
        """
        with after_a_change(lambda: sent.was_sent):
            answers, repeated = self._call(primitive, [item])
        return answers[0], repeated or sent.was_sent

    def each(self, primitive: Primitive, items: Sequence[Any]) -> list[Answer | BoardUnavailable]:
        """Return the answer to each item, or why it has none; what others have locked is tried again for a while.

        :raises BoardUnavailable: the store is away.
        """
        until = time.monotonic() + seconds_for_locks()
        replies: dict[int, Answer | BoardUnavailable] = {}
        left: dict[int, Alone] = {}
        try:
            shared = self.together(primitive, items)
        except BoardUnavailable as error:
            if len(items) > 1 or self._is_away(error):
                raise
            return [error]
        for at, reply in enumerate(shared):
            if isinstance(reply, Alone):
                left[at] = reply
            else:
                replies[at] = reply
        while left:
            self._send_each(primitive, items, left, replies)
            left = {at: Alone() for at in left if isinstance(replies[at], RowLocked)}
            if not left or time.monotonic() + _LOCK_TIMEOUT > until:
                break
            time.sleep(_LOCK_PAUSE)
        return [replies[at] for at in range(len(items))]

    def _send_each(
        self,
        primitive: Primitive,
        items: Sequence[Any],
        left: dict[int, Alone],
        replies: dict[int, Answer | BoardUnavailable],
    ) -> None:
        """Send these items one by one; once the store is away, no more of them."""
        away: BoardUnavailable | None = None
        for at, sent in left.items():
            if away is not None:
                kind = ReplyLost if sent.was_sent else BoardUnavailable
                replies[at] = kind(f"it was not sent alone, since the store is away: {away}")
                continue
            try:
                with lock_wait(0.0):
                    replies[at] = self.alone(primitive, items[at], sent)
            except BoardUnavailable as error:
                replies[at] = error
                away = error if self._is_away(error) else None


def own_copy(error: BoardUnavailable) -> BoardUnavailable:
    """Return an error for one of several who share it: raising changes its traceback and its context."""
    own = copy.copy(error)
    own.__cause__ = error
    return own


def _is_taken(answer: Any) -> bool:
    return isinstance(answer, Posted) and answer.outcome.refuses_batch
