"""The options that select jobs, and the one way in which commands change many of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from jobboard.cli.session import Function, Session, confirm, is_given, options, yes_option
from jobboard.cli.values import FILTER, SPAN
from jobboard.job import row_of
from jobboard.operate.bulk import Action, BulkOutcome, Target, of_what, summary_of, target_of, targets_of
from jobboard.operate.finding import find_job
from jobboard.operate.selecting import MAX_SCANNED, Selection
from jobboard.states import JobState
from jobboard.text import duration

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job

#: How many refusals are told one by one, and how many jobs a dry run lists to people.
_MAX_REFUSALS, _MAX_LISTED = 20, 100

_FILTERS = options(
    click.option("--job-name", "names", multiple=True, type=FILTER, help="Only jobs of this name; may be repeated."),
    click.option("--key", type=FILTER, help="Only jobs with this key."),
    click.option("--key-prefix", metavar="TEXT", type=FILTER, help="Only jobs whose keys begin with this text."),
    click.option(
        "--key-contains", metavar="TEXT", type=FILTER, help="Only jobs whose keys have this text in them; see --scan."
    ),
    click.option(
        "--detail",
        "having",
        metavar="NAME=VALUE",
        multiple=True,
        callback=lambda _context, _parameter, given: _details_of(given),
        help="Only jobs with this in their details, such as order.id=4711; may be repeated; see --scan.",
    ),
    click.option(
        "--scan",
        type=click.IntRange(min=0),
        default=MAX_SCANNED,
        show_default=True,
        help="For --key-contains, --detail and --newest, look at this many jobs at most, and say so; 0: all.",
    ),
    click.option("--lane", type=FILTER, help="Only jobs of this lane."),
    click.option("--owner", metavar="TEXT", type=FILTER, help="Only jobs whose owner's name begins with this text."),
    click.option("--older-than", type=SPAN, help="Only jobs posted, or trashed, longer ago than this."),
    click.option("--newer-than", type=SPAN, help="Only jobs posted, or trashed, no longer ago than this."),
    click.option("--reason", metavar="TEXT", type=FILTER, help="Only jobs whose reason has this text in it."),
    click.option(
        "--reason-kind", "kind", metavar="TEXT", type=FILTER, help="Only jobs of one group of: trashed --groups."
    ),
    click.option("--schedule", metavar="ID", type=FILTER, help="Only jobs that this schedule posted."),
)
_FIELDS = (
    "states", "names", "key", "key_prefix", "key_contains", "having", "owner", "older_than", "newer_than", "reason",
    "schedule", "kind", "lane", "limit", "scan",
)  # fmt: skip


def selectors(among: Collection[JobState], limit: int | None = None) -> Callable[[Function], Function]:
    """Return a decorator that adds the options, and hands the function a ``selection`` made of them.

    :param among: the states that the command is for, and its default.
    :param limit: the default of ``--limit``; None: all.
    """
    most = click.option(
        "--limit",
        type=click.IntRange(min=0),
        default=limit or 0,
        show_default="all" if limit is None else True,
        help="How many at most; 0: all.",
    )

    state = click.option(
        "--state",
        "states",
        multiple=True,
        type=click.Choice([state.value.lower() for state in JobState if state in among]),
        help="Only jobs in this state; may be repeated.",
    )

    def decorate(function: Function) -> Function:
        @state
        @_FILTERS
        @most
        @functools.wraps(function)
        def with_selection(*args: Any, **given: Any) -> Any:
            chosen = {field: given.pop(field) for field in _FIELDS}
            return function(*args, selection=_selection_of(among, **chosen), **given)

        return with_selection

    return decorate


def is_filtered() -> bool:
    """Whether the present command line has any of these options but ``--limit`` and ``--scan``."""
    return any(is_given(field) for field in _FIELDS if field not in ("limit", "scan"))


def is_for_one(dry_run: bool) -> bool:
    """Whether the present command line, which names one JOB, has neither filters nor ``--all``, and changes it."""
    return not (dry_run or is_given("everything") or is_filtered())


def _filters_given() -> str:
    """Return the filters of the present command line, as they are typed."""
    context = click.get_current_context()
    given = [one for one in context.command.params if one.name in _FIELDS and is_given(one.name)]
    told = [f"{one.opts[0]} {text}" for one in given for text in _texts_of(context.params[str(one.name)])]
    return f" ({', '.join(told)})" if told else ""


def _texts_of(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{name}={text}" for name, text in value.items()]
    if isinstance(value, (list, tuple)):
        return list(map(str, value))
    return [duration(value) if isinstance(value, float) else str(value)]


def _selection_of(
    among: Collection[JobState],
    *,
    states: Sequence[str],
    names: Sequence[str],
    limit: int,
    scan: int,
    having: dict[str, str],
    **filters: Any,
) -> Selection:
    return Selection(
        states={JobState(state.upper()) for state in states} or among,
        names=names or None,
        limit=limit or None,
        scan=scan or None,
        details=having or None,
        **filters,
    )


def _details_of(given: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    if bad := [name for name, equals, _ in pairs if not (name and equals)]:
        raise click.UsageError(f"--detail needs NAME=VALUE, such as order.id=4711, not {bad[0]!r}")
    return {name: value for name, _, value in pairs}


def selected(session: Session, selection: Selection, board: JobBoard) -> Iterator[Job]:
    """Iterate over the jobs; warn if the search has stopped before the end."""
    return selection.jobs(board, functools.partial(warn_of_more, session))


def warn_of_more(session: Session, number: int) -> None:
    """Say that a search has looked at so many jobs, and that there are more."""
    narrower = "give --job-name or --state, or --scan 0 for all"
    session.output.warn(f"looked at the first {number} jobs only; there are more: {narrower}")


#: Of the commands that change jobs: one, some by filters, or all.
one_some_or_all = options(
    click.argument("job", required=False),
    click.option("--all", "everything", is_flag=True, help="All jobs that the command is for."),
    yes_option,
    click.option("--dry-run", is_flag=True, help="Only list the jobs, and change nothing."),
)


def change_selected(
    session: Session,
    action: Action,
    *,
    by: str,
    note: str | None,
    job: str | None,
    everything: bool,
    selection: Selection,
    yes: bool,
    dry_run: bool,
    asks_for_one: bool = False,
) -> None:
    """Change one JOB, those of the selection or all; ask first, unless it is one or ``yes``.

    :param action: what jobs then are, with ``_`` for spaces, is also the name of their number in JSON.
    :param asks_for_one: whether to ask for one JOB too.
    """
    if (job is not None) + everything + is_filtered() != 1:
        raise click.UsageError("name one JOB, or filters such as --job-name, or --all")
    board = session.board()
    jobs = [find_job(board, job, action.states)] if job is not None else selected(session, selection, board)
    if dry_run:
        found = [(target_of(row), row.state) for row in map(row_of, jobs)]
        show_targets(session, action, [each for each in found if each[1] in selection.states])
        return
    targets = targets_of(jobs)
    if targets and not yes and (job is None or asks_for_one):
        confirm(f"{action.verb} {of_what(targets)}{_filters_given()}?")
    with session.output.progress(action.verb, len(targets)) as step:
        outcome = action.act(board, targets, step, by=by, reason=note)
    if job is not None:
        # Whoever names one job wants to know that it was not there.
        outcome.refused, outcome.gone = outcome.unchanged, []
    report_outcome(session, action, targets, outcome)


def report_outcome(
    session: Session,
    action: Action,
    targets: Sequence[Target],
    outcome: BulkOutcome,
    more: Mapping[str, Any] = MappingProxyType({}),
    left_out: str = "",
) -> None:
    """Say what has become of the jobs of an action, and why some were refused.

    :param more: what else is told as JSON.
    :param left_out: what else is told to people.
    """
    data = {action.done.replace(" ", "_"): outcome.done, "refused": outcome.refused, **more}
    if outcome.asked:
        data["asked"] = outcome.asked
    if outcome.gone:
        data["gone"] = len(outcome.gone)
    session.output.report(data, f"{summary_of(targets, action, outcome)}{left_out}")
    tell_refused(session, outcome.refused)


def show_targets(session: Session, action: Action, targets: Sequence[tuple[Target, JobState]], more: str = "") -> None:
    """List the jobs that an action would change, in the states that they are in, and say how many."""
    rows = [
        {"uuid": target.uuid, "name": target.name, "key": target.key, "state": state.value} for target, state in targets
    ]
    if rows or session.output.json:
        listed = rows if session.output.json else rows[:_MAX_LISTED]
        session.output.table(("uuid", "name", "key", "state"), listed, empty="")
    first = f" (these are the first {_MAX_LISTED})" if len(rows) > _MAX_LISTED else ""
    what = of_what([target for target, _ in targets])
    session.output.say(f"{what}{first} would be {action.done}{more}; nothing was changed")


def tell_refused(session: Session, refused: Sequence[str]) -> None:
    """Write a line for each of the first refusals; if there are any, the exit status is 1."""
    for line in refused[:_MAX_REFUSALS]:
        session.output.error(line)
    if len(refused) > _MAX_REFUSALS:
        session.output.error(f"and {len(refused) - _MAX_REFUSALS} more")
    if refused:
        raise click.exceptions.Exit(1)
