"""What a page says after an action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobboard.operate.actions import Action
from jobboard.operate.bulk import Outcome, Target, told

#: How many refusals are told one by one.
_MAX_LINES = 20


@dataclass(frozen=True, slots=True)
class Message:
    """A text, some lines below it, and how many more there are. ``tone`` is ``good``, ``warn`` or ``bad``."""

    tone: str
    text: str
    lines: tuple[str, ...] = ()
    more: int = 0


def message_of(action: Action, targets: Sequence[Target], outcome: Outcome) -> Message:
    """Say how many jobs were changed, and why the others were not."""
    tone = "good" if not outcome.refused else "warn" if outcome.done else "bad"
    more = max(0, len(outcome.refused) - _MAX_LINES)
    return Message(tone, f"{told(targets, action.done, outcome)}.", tuple(outcome.refused[:_MAX_LINES]), more)
