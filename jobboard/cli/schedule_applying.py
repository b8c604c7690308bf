"""The command that lets a board's schedules follow a file."""

from __future__ import annotations

from typing import Any

import click

from jobboard.cli.applying import Applying, apply_options
from jobboard.cli.schedule_files import crontab_options, schedules_of
from jobboard.cli.session import Session, by_and_note, command, is_given, pass_session
from jobboard.operate.pasting import file_argument
from jobboard.operate.schedules import change_line, changes_view


@command(
    "apply",
    "jobboard schedule apply schedules.json --source shop --dry-run",
    "jobboard schedule apply schedules.json --source shop --yes --note 'release 4711'",
    "jobboard schedule apply /etc/crontab --crontab --system --job shell --source crontab",
)
@click.argument("file")
@click.option(
    "--source", required=True, metavar="NAME", help="What the file belongs to: another name for each file of a board."
)
@crontab_options
@apply_options
@by_and_note
@pass_session
def apply(
    session: Session, /, file: str, source: str, dry_run: bool, yes: bool, by: str, note: str | None, **crontab: Any
) -> None:
    """Give the board the schedules of FILE (- for standard input): what export wrote, or a crontab.

    Shows what differs, and asks first. What an apply of the same source once added, and the file has no more, is
    removed; other schedules stay, and what is paused stays so. Again it changes nothing.
    """
    wanted = schedules_of(file, **crontab)
    board = session.board_to_preview() if dry_run else session.board_to_change()
    words = [file_argument(file), "--source", source, *_words(crontab), "--yes"]
    again = ["schedule", "apply", *words]
    changes = board.schedules.changes_to(wanted, source)
    applying = Applying(session, "schedule", again, dry_run=dry_run, yes=yes)
    if applying.may_change([change_line(change) for change in changes]):
        changes = board.schedules.apply(wanted, source, by=by, reason=note)
    same = f"the schedules of {source!r} are as the file says"
    applying.report(changes, changes_view(changes, wanted, dry_run), same)


def _words(crontab: dict[str, Any]) -> list[str]:
    """Return the options of a crontab as they were given."""
    flags = [f"--{name}" for name, value in crontab.items() if value is True]
    return flags + [word for name in ("job", "tz", "prefix") if is_given(name) for word in (f"--{name}", crontab[name])]


COMMANDS = (apply,)
