"""Brings a board's schedules in line with those of the settings, as ``migrate`` does with tables."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from jobboard.board import JobBoard
from jobboard.contrib.django.schedules import is_of_settings
from jobboard.errors import AlreadyScheduled, NotFound, UnreadableSchedule
from jobboard.schedules.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done, or would be: the ids of the schedules.

    :ivar changed: id -> the fields that were changed.
    """

    added: list[str] = field(default_factory=list)
    changed: dict[str, list[str]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)


def apply_schedules(board: JobBoard, alias: str, wanted: Mapping[str, Schedule], *, dry_run: bool = False) -> Applied:
    """Add and change schedules so that the board has those of the settings; remove what came from them before.

    Idempotent, also if several processes do it at once. Each schedule is changed in one step, and keeps its progress
    unless its times change; one that an operator has paused stays paused. Schedules that others added stay, unless the
    settings have one of that id.

    :param alias: of the backend in ``TASKS`` that they are of.
    :param dry_run: only say what would be done.
    :raises UnreadableSchedule: the board has one of these ids of a newer format.
    :raises BoardUnavailable: the store can't be reached.
    """
    there = {schedule.id: schedule for schedule in board.schedules}
    done = Applied()
    for id, schedule in wanted.items():
        _put(board, schedule, there.get(id), done, dry_run)
    for id in sorted(there):
        if id not in wanted and is_of_settings(there[id], alias):
            _remove(board, id, done, dry_run)
    return done


def _put(board: JobBoard, wanted: Schedule, present: Schedule | None, done: Applied, dry_run: bool) -> None:
    if present is None:
        try:
            if not dry_run:
                board.schedules.add(wanted)
            done.added.append(wanted.id)
            return
        except AlreadyScheduled:
            # Another process was faster, or it is one that can't be decoded.
            with suppress(UnreadableSchedule):
                present = board.schedules.get(wanted.id)
    fields = ["all"] if present is None else _differences(present, wanted)
    if not fields:
        done.unchanged.append(wanted.id)
        return
    if not dry_run:
        board.schedules.add(wanted, "replace")
    done.changed[wanted.id] = fields


def _remove(board: JobBoard, id: str, done: Applied, dry_run: bool) -> None:
    try:
        if not dry_run:
            board.schedules.remove(id)
        done.removed.append(id)
    except NotFound:
        return


def _differences(present: Schedule, wanted: Schedule) -> list[str]:
    """Return the fields that a replacement would change; a pause that an operator made is none."""
    before, after = present.to_plain(), wanted.to_plain()
    after["paused"] = wanted.paused or present.paused
    return [name for name in before if before[name] != after[name]]
