"""The loop of every change: read, decide, write on condition that nothing has changed since; otherwise try again."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from jobboard.backends.errors import after_a_change
from jobboard.errors import BoardUnavailable

Step = TypeVar("Step")
Answer = TypeVar("Answer")

#: For how many seconds a change is tried again while other clients change the same keys.
CHANGE_TIMEOUT = 10.0


class Deadline:
    """Limits a loop that tries again because other clients were faster, or because more jobs became due."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def check(self, what: str) -> None:
        """Raise ``BoardUnavailable`` if the time is over."""
        if time.monotonic() > self._end:
            raise BoardUnavailable(f"others are always faster: {what}")


@dataclass(slots=True)
class Done(Generic[Answer]):
    """What is certain of a step: the answer, and whether something was written for it."""

    answer: Answer
    is_written: bool


def carry_out(
    steps: Sequence[Step],
    id_of: Callable[[Step], Hashable],
    attempt: Callable[[Sequence[Step], bool], Sequence[Done[Answer] | None]],
    max_steps: int | None = None,
) -> list[Answer]:
    """Carry steps out, each atomically, and return their answers; several steps of one id one after the other.

    :param attempt: reads, decides on and writes these steps of different ids, and returns what is certain of each;
        None: it must be tried again. Also gets whether one of them was tried before.
    :param max_steps: steps in one attempt at most.
    :raises BoardUnavailable: others change the same all the time; :class:`ReplyLost` if a step was written before.
    """
    done: dict[int, Done[Answer]] = {}
    pending = list(range(len(steps)))
    deadline, tried = Deadline(CHANGE_TIMEOUT), set[int]()
    with after_a_change(lambda: any(one.is_written for one in done.values())):
        while pending:
            first: dict[Hashable, int] = {}
            for at in pending:
                first.setdefault(id_of(steps[at]), at)
            turn = list(first.values())[:max_steps]
            answers = attempt([steps[at] for at in turn], not tried.isdisjoint(turn))
            tried.update(turn)
            done |= {at: one for at, one in zip(turn, answers, strict=True) if one is not None}
            pending = [at for at in pending if at not in done]
            if pending:
                deadline.check(f"{len(pending)} of {len(steps)} change all the time")
    return [done[at].answer for at in range(len(steps))]
