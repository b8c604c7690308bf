"""Limits and lanes as plain dicts, and the changes that make a board's limits those of a file."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from jobboard.limit import LaneStats, Limit
from jobboard.operate.limits_file import rate_text, terms_of
from jobboard.text import duration, until_text

if TYPE_CHECKING:
    from jobboard.board import JobBoard


def limit_view(limit: Limit) -> dict[str, Any]:
    """Return all of a limit as plain data."""
    return asdict(limit)


def lane_view(lane: LaneStats) -> dict[str, Any]:
    """Return all that is known of a lane as plain data; ``of`` is how many may run, None without such a limit."""
    limit = lane.limit
    view = asdict(lane)
    view["limit"] = None if limit is None else limit_view(limit)
    return view | {
        "taken": lane.taken,
        "kept": lane.kept,
        "of": None if limit is None else limit.running,
        "rate": None if limit is None or limit.rate is None else str(limit.rate),
        "order": None if limit is None else limit.order,
        "paused": limit is not None and limit.paused,
        "paused_until": None if limit is None else limit.paused_until,
    }


def lane_row(lane: LaneStats) -> dict[str, Any]:
    """Return the same for people: for how long the oldest waits as ``1m8s``, and of the limit what holds."""
    view = lane_view(lane) | {"oldest": None if lane.oldest is None else duration(lane.oldest)}
    del view["limit"]
    return _for_people(view)


def limit_row(limit: Limit) -> dict[str, Any]:
    """Return all of a limit for people."""
    rate = None if limit.rate is None else str(limit.rate)
    return _for_people(limit_view(limit) | {"rate": rate})


def _for_people(view: dict[str, Any]) -> dict[str, Any]:
    end = view.pop("paused_until")
    return view if end is None else view | {"paused": until_text(end).strip()}


def command_for(limit: Limit) -> str:
    """Return the command that sets a limit."""
    scope, which = ("--job-name", limit.name) if limit.lane is None else ("--lane", limit.lane)
    words = ["jobboard", "limits", "set", scope, str(which)]
    words += [] if limit.running is None else ["--running", str(limit.running)]
    if limit.rate is not None:
        words += ["--rate", rate_text(limit.rate), "--burst", str(limit.rate.burst)]
    return shlex.join([*words, *(["--order", limit.order] if limit.order != "free" else [])])


def terms_text(limit: Limit) -> str:
    """Return what a limit says beside a pause: ``"2 running, strict order"``."""
    return str(limit.without_pause()).rpartition(": ")[2]


@dataclass(frozen=True, slots=True)
class LimitChange:
    """A limit that differs: None ``before``: it is added; None ``after``: it is removed."""

    before: Limit | None
    after: Limit | None

    @property
    def kind(self) -> str:
        """``"added"``, ``"changed"`` or ``"removed"``."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"

    def line(self) -> str:
        """Return it as a line of a difference."""
        if self.before is None:
            return f"+ {self.after}"
        before = self.before.without_pause()
        return f"- {before}" if self.after is None else f"~ {before} -> {terms_text(self.after)}"

    def view(self) -> dict[str, Any]:
        limit = self.after or self.before
        assert limit is not None
        both = {"before": self.before, "after": self.after}
        views = {what: None if each is None else limit_view(each) for what, each in both.items()}
        return {"kind": self.kind, "name": limit.name, "lane": limit.lane} | views


def changes_to(wanted: Sequence[Limit], there: Iterable[Limit], *, removing: bool = False) -> list[LimitChange]:
    """Return what makes the limits that are there those that are wanted, sorted; pauses are left as they are.

    :param removing: whether limits that are not wanted are removed.
    """
    before = {_key(limit): limit for limit in there if terms_of(limit)}
    after = {_key(limit): limit for limit in wanted}
    changes = [
        LimitChange(before.get(key), limit)
        for key, limit in after.items()
        if key not in before or terms_of(before[key]) != terms_of(limit)
    ]
    if removing:
        changes += [LimitChange(limit, None) for key, limit in before.items() if key not in after]
    return sorted(changes, key=lambda change: _key(change.after or change.before or Limit()))


def apply_changes(board: JobBoard, changes: Iterable[LimitChange], *, by: str | None, reason: str | None) -> None:
    """Make the changes, each atomically; again, they do no harm.

    :raises BoardUnavailable: the store can't be reached; some may be made.
    """
    for change in changes:
        if change.after is not None:
            limit = change.after
            board.limits.set(
                name=limit.name, lane=limit.lane, running=limit.running, rate=limit.rate, order=limit.order,
                by=by, reason=reason,
            )  # fmt: skip
        elif change.before is not None:
            board.limits.remove(name=change.before.name, lane=change.before.lane, by=by, reason=reason)


def _key(limit: Limit) -> tuple[bool, str]:
    return limit.lane is not None, limit.lane or limit.name or ""
