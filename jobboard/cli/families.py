"""The option ``--with-children``: a command for one job that also takes those that wait for it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import click

from jobboard.cli.output import count
from jobboard.cli.selecting import is_filtered, report_outcome, show_targets
from jobboard.cli.session import Function, Session, confirm
from jobboard.client.edge_reading import MAX_JOBS
from jobboard.naming import label_of
from jobboard.operate.bulk import Action, Target, of_what
from jobboard.operate.finding import find_job
from jobboard.operate.with_children import family_of
from jobboard.states import JobState

#: How many jobs that are not brought back are listed.
_MAX_NAMED = 3

_OPTION = click.option(
    "--with-children",
    is_flag=True,
    help=f"Also the jobs that wait for JOB, over all levels, {MAX_JOBS:,} at most; asks first.",
)


def may_take_children(action_of: Callable[..., Action]) -> Callable[[Function], Function]:
    """Return a decorator that adds the option.

    :param action_of: returns what the command then does to all of them; it gets the options of the command.
    """

    def decorate(function: Function) -> Function:
        @_OPTION
        @functools.wraps(function)
        def either(session: Session, /, *, with_children: bool, **given: Any) -> Any:
            return _change(session, action_of(**given), **given) if with_children else function(session, **given)

        return either

    return decorate


def _change(
    session: Session,
    action: Action,
    *,
    job: str | None,
    everything: bool,
    yes: bool,
    dry_run: bool,
    by: str,
    note: str | None,
    **_: Any,
) -> None:
    if job is None or everything or is_filtered():
        raise click.UsageError("--with-children needs one JOB, and no filters")
    board = session.board()
    family = family_of(board, find_job(board, job, action.states), action)
    if not family.is_whole:
        raise click.ClickException(f"more than {MAX_JOBS:,} jobs wait for it, so nothing was changed")
    if family.went_on:
        session.output.warn(_of_those_that_went_on(family.went_on))
    if family.ended:
        session.output.warn(_of_those_that_ended(family.ended))
    what = of_what(family.targets)
    left_out = f"; {count(family.left_out, 'job')} in other states left out" if family.left_out else ""
    if dry_run:
        show_targets(session, action, list(zip(family.targets, family.states, strict=True)), left_out)
        return
    if family.targets and not yes:
        confirm(f"{action.verb} {what}{left_out}?")
    with session.output.progress(action.verb, len(family.targets)) as step:
        outcome = action.act(board, family.targets, step, by=by, reason=note)
    more: dict[str, Any] = {"left_out": family.left_out}
    if family.went_on:
        more["went_on"] = [target.uuid for target in family.went_on]
    if family.ended:
        more["ended"] = list(family.ended)
    report_outcome(session, action, family.targets, outcome, more, left_out)


def _of_those_that_went_on(states: Mapping[Target, JobState]) -> str:
    """Return what an operator must know of jobs that don't wait for their parents again."""
    told = {
        target.uuid: f"{label_of(target.name, target.key)}, {state.value.lower()}" for target, state in states.items()
    }
    their = "their" if len(states) != 1 else "its"
    advice = (
        "; to run what is trashed after its parents, restore these alone, and it once they are complete"
        if JobState.TRASHED in states.values()
        else ""
    )
    return (
        f"{of_what(list(states))} went on without {their} parents once, and will not wait for them again: "
        f"{_named(told)}{advice}"
    )


def _of_those_that_ended(ends: Mapping[str, str]) -> str:
    """Return what an operator must know of jobs that waited for what is restored, and have ended since."""
    is_one = len(ends) == 1
    which = f"{count(len(ends), 'job')} that waited for what is restored {'has' if is_one else 'have'} ended"
    return f"{which}, and won't come back: {_named(ends)}; post {'it' if is_one else 'them'} anew if need be"


def _named(told: Mapping[str, str]) -> str:
    named = [f"{uuid} ({what})" for uuid, what in islice(told.items(), _MAX_NAMED)]
    return ", ".join(named) + (f" and {len(told) - _MAX_NAMED:,} more" if len(told) > _MAX_NAMED else "")
