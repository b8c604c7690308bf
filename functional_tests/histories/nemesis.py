"""Who makes the faults: which ones, when and for how long follows from the seed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from .records import Fault, FaultDiary

#: Makes a fault for so many seconds, on whichever of several the second number (0 to 1) says, and ends it; returns
#: the process that it was made on, None for the store and the lines to it.
Disturbance = Callable[[float, float], str | None]


class Nemesis:
    """Makes the faults of each lane one after the other, and the lanes beside each other.

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
            while not self._stop.wait(chance.uniform(0.2, 2 * self._calm)):
                kind, seconds, pick = chance.choice(sorted(faults)), chance.uniform(0.1, 3.0), chance.random()
                start = time.monotonic()
                process = faults[kind](seconds, pick)
                self._diary.add(Fault(kind, start, time.monotonic(), process))
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
