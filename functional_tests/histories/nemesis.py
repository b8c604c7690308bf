"""Makes the faults: the seed decides which ones, when and for how long."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from .records import Fault, FaultDiary

#: Makes a fault for the given seconds, on whichever of several the second number (0 to 1) says, and ends it; returns
#: whom it was made on, as :class:`Fault` says. The event ends the fault early: the history is over.
Disturbance = Callable[[float, float, threading.Event], str | None]


class Nemesis:
    """Makes the faults of each lane one after the other, and the lanes beside each other.

    A lane makes each of its faults once before it makes one of them again.

    :param lanes: for each the faults that it makes.
    :param calm: how many seconds are between two faults of a lane, on average.
    """

    def __init__(
        self, seed: int, lanes: Mapping[str, Mapping[str, Disturbance]], diary: Path, calm: float = 2.5
    ) -> None:
        self._diary = FaultDiary(diary)
        self._stop = threading.Event()
        self._calm = calm
        self._threads = [
            threading.Thread(target=self._disturb, args=(random.Random(f"{seed}/nemesis/{name}"), faults), daemon=True)
            for name, faults in lanes.items()
            if faults
        ]
        #: What went wrong with the making of faults itself.
        self.error: Exception | None = None

    @property
    def faults(self) -> list[Fault]:
        return list(self._diary.faults)

    def _disturb(self, chance: random.Random, faults: Mapping[str, Disturbance]) -> None:
        try:
            for kind in _again_and_again(chance, sorted(faults)):
                if self._stop.wait(chance.uniform(0.2, 2 * self._calm)):
                    return
                seconds, pick = chance.uniform(0.1, 3.0), chance.random()
                start = time.monotonic()
                whom = faults[kind](seconds, pick, self._stop)
                self._diary.add(Fault(kind, start, time.monotonic(), whom))
        except Exception as error:
            self.error = error

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Every fault ends before the next one begins, so that nothing is left to be healed."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


def _again_and_again(chance: random.Random, kinds: Sequence[str]) -> Iterator[str]:
    while True:
        yield from chance.sample(kinds, len(kinds))
