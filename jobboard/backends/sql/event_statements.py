"""The statements about what has happened on all boards: the end of the journal."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select, text

from jobboard.backends.sql.schema import jobs, journal
from jobboard.backends.sql.statement import Statement, in_list, p
from jobboard.events import EventKind

#: What happens to every job, or often.
COMMON_KINDS = frozenset(
    kind.value
    for kind in (
        EventKind.POSTED,
        EventKind.CLAIMED,
        EventKind.CONSUMED,
        EventKind.EXTENDED,
        EventKind.CHECKPOINTED,
    )
)
#: Events that give nobody anything to claim.
UNAWAITED_KINDS = frozenset({EventKind.CLAIMED.value, EventKind.CONSUMED.value})


def _listed(kinds: frozenset[str]) -> str:
    return "(" + ", ".join(f"'{kind}'" for kind in sorted(kinds)) + ")"


LAST_EVENT = Statement(select(func.coalesce(func.max(journal.c.id), 0)))
MAX_EVENTS = 1000
_columns = [journal.c[name] for name in ("id", "kind", "who", "token", "at", "reason", "board")]
_of_job = [func.coalesce(journal.c[name], jobs.c[name]) for name in ("uuid", "name")]
_events = (
    select(*_columns, *_of_job).select_from(journal.outerjoin(jobs, journal.c.job == jobs.c.id)).order_by(journal.c.id)
)
# On PostgreSQL only the lines of an older version have no uuid and no name, and their tables an index by id.
_of_older = [
    func.coalesce(journal.c[name], select(jobs.c[name]).where(jobs.c.id == journal.c.job).scalar_subquery())
    for name in ("uuid", "name")
]
_events_by_uuid = select(*_columns, *_of_older).select_from(journal).order_by(journal.c.id)


def _lines(those: Any, most: int | None = None) -> Statement:
    return Statement(
        _events.where(those).limit(most),
        postgresql=_events_by_uuid.where(those).limit(most),
    )


#: The last line that was read, if it is there still, and the next ones.
EVENTS = _lines(journal.c.id >= p("last"), 1 + MAX_EVENTS)
MAX_SKIMMED = 10_000
#: PostgreSQL's: the numbers of the next lines, those of them that are rare, whether somebody may wait for one, and the
#: number of the last line.
SKIM = Statement(
    text(f"""
SELECT array_agg(id), array_agg(id) FILTER (WHERE kind NOT IN {_listed(COMMON_KINDS)}),
    bool_or(kind NOT IN {_listed(UNAWAITED_KINDS)}),
    (SELECT coalesce(max(id), 0) FROM jobboard_journal)
FROM (SELECT id, kind FROM jobboard_journal WHERE id > :last ORDER BY id LIMIT {MAX_SKIMMED}) AS lines
""")  # nosec B608 # made of this module's constants only
)
EVENTS_OF = _lines(in_list(journal.c.id, "ids"))
#: What differs once anything was written, also if it was numbered earlier than what was there before.
_last = select(journal.c.id).order_by(journal.c.id.desc()).limit(100).subquery("last_lines")
END_OF_JOURNAL = Statement(select(func.count(), func.max(_last.c.id), func.sum(_last.c.id)))
