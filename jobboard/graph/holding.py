"""Which jobs go on only once somebody restores one from the trash. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jobboard.backends.rows import IfFailed, JobRow
from jobboard.states import LIVE, JobState


def held_of(rows: Mapping[str, JobRow], children: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the jobs that wait for one in the trash, or for one that does; linear in jobs and edges."""
    trashed = [uuid for uuid, row in rows.items() if row.state is JobState.TRASHED]
    held = {child for uuid in trashed for child in _waiting(rows, children.get(uuid, ()), IfFailed.WAIT)}
    left = list(held)
    for uuid in left:
        # What is held has not ended, so its children wait for it whatever they do if it fails.
        for child in _waiting(rows, children.get(uuid, ())):
            if child not in held:
                held.add(child)
                left.append(child)
    return held


def _waiting(rows: Mapping[str, JobRow], uuids: Iterable[str], if_failed: IfFailed | None = None) -> Iterable[str]:
    """Return those of some jobs that wait for a parent."""
    for uuid in uuids:
        row = rows.get(uuid)
        if row is None or row.state not in LIVE or row.ties is None or not row.ties.has_parents:
            continue
        if if_failed in (None, row.ties.if_failed):
            yield uuid
