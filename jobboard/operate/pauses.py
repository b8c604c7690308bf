"""What is paused, by whom, since when and why: as plain data, and in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jobboard.backends.text import in_one_line

if TYPE_CHECKING:
    from jobboard.backends.rows import Pause


def paused_view(pauses: Collection[Pause]) -> dict[str, Any]:
    """Return what is paused; under ``pauses`` with all that is known of each."""
    return {
        "board": any(pause.name is None for pause in pauses),
        "names": sorted(pause.name for pause in pauses if pause.name is not None),
        "pauses": [asdict(pause) for pause in pauses],
    }


def paused_texts(view: dict[str, Any]) -> list[str]:
    """Return what is paused of such a view, for lists: ``resize (by ada since 2026-11-27 23:49:57 UTC: disk full)``."""
    return [f"{pause['name'] or 'the whole board'}{_in_brackets(**pause)}" for pause in view["pauses"]]


def paused_sentences(pauses: Iterable[Pause]) -> dict[str | None, str]:
    """Return for each paused name (None: the whole board) a sentence that says so."""
    return {
        pause.name: f"{'The whole board is' if pause.name is None else f'Jobs named {pause.name!r} are'} paused"
        f"{_in_brackets(**asdict(pause))}."
        for pause in pauses
    }


def _in_brackets(*, by: str | None, reason: str | None, at: Any, name: str | None) -> str:
    said = [f"by {by}"] if by else []
    said += [f"since {at:%Y-%m-%d %H:%M:%S} UTC"] if at else []
    text = ": ".join(part for part in (" ".join(said), in_one_line(reason) if reason else "") if part)
    return f" ({text})" if text else ""
