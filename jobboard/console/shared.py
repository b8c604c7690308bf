"""What many browsers look at at once: asked for once, and kept for a moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.exceptions import HTTPException

from jobboard.operate.bulk import Action, BulkOutcome, Target, summary_of
from jobboard.operate.sampling import Sampler
from jobboard.operate.verdict import Verdict

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.console.view import View


Answer = TypeVar("Answer")

#: Seconds for which the numbers of jobs are shown as they were.
STATS_AGE = 5.0
#: How many answers are kept.
_MAX_ANSWERS = 50


class _Kept:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked_at: float | None = None
        self.answer: Any = None


class SharedAnswers:
    """The answers of one board."""

    def __init__(self, _board: JobBoard) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Hashable, _Kept] = {}

    def get(self, key: Hashable, ask: Callable[[], Answer], seconds: float = 2.0) -> Answer:
        """Return the answer, which is this many seconds old at most; of those who want it at once, one asks."""
        with self._lock:
            if key not in self._kept and len(self._kept) >= _MAX_ANSWERS:
                self._kept.clear()
            kept = self._kept.setdefault(key, _Kept())
        with kept.lock:
            if kept.asked_at is None or time.monotonic() - kept.asked_at >= seconds:
                kept.asked_at, kept.answer = time.monotonic(), ask()
            answer: Answer = kept.answer
            return answer

    def forget(self) -> None:
        """Something has been changed here: ask anew, also for what is being asked at this moment."""
        with self._lock:
            self._kept.clear()


def sampler_of(view: View) -> Sampler:
    """Return what knows how the board is and was."""
    return view.part(view.settings.make_sampler)


def checked(check: Callable[..., Answer], *value: object) -> Answer:
    """Return what ``check`` does; what a user has mistyped, or made up, is answered with 400."""
    try:
        return check(*value)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error


def answers_of(view: View) -> SharedAnswers:
    return view.part(SharedAnswers)


def said_of(finding: Mapping[str, Any]) -> tuple[str, str]:
    """Return the sentences of a finding, of which users may have written a part, and what to type."""
    return finding["text"].removesuffix(finding["cure"]).rstrip(), finding["cure"]


def counted(status: Mapping[str, Any]) -> str:
    """Return how many problems and warnings there are; those that were left out are the least bad."""
    verdicts = [finding["verdict"] for finding in status["findings"]]
    problems = verdicts.count(Verdict.BAD.name)
    warnings = len(verdicts) - problems + status.get("left_out", {}).get("findings", 0)
    counts = {"problem": problems, "warning": warnings}
    said = [f"{number:,} {what}{'s' * (number != 1)}" for what, number in counts.items() if number]
    return ", ".join(said) or "All is well"


#: How many refusals are told one by one.
_MAX_LINES = 20


@dataclass(frozen=True, slots=True)
class Message:
    """A text, some lines below it, and how many more there are. ``tone`` is ``good``, ``warn`` or ``bad``."""

    tone: str
    text: str
    lines: tuple[str, ...] = ()
    more: int = 0


def message_of(action: Action, targets: Sequence[Target], outcome: BulkOutcome) -> Message:
    """Say how many jobs were changed, and why the others were not."""
    unchanged = outcome.unchanged
    tone = "good" if not unchanged else "warn" if outcome.done else "bad"
    more = max(0, len(unchanged) - _MAX_LINES)
    return Message(tone, f"{summary_of(targets, action, outcome)}.", tuple(unchanged[:_MAX_LINES]), more)
