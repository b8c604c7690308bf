"""The commands of the group ``book``: the board's logbooks."""

from __future__ import annotations

import itertools

import click

from jobboard.cli.session import Session, command, confirm, pass_session, warn_of_rest, yes_option
from jobboard.operate.finding import book_row, book_view, find_book


@command("ls", "jobboard book ls", "jobboard book ls --limit 0 --json")
@click.option(
    "--limit", type=click.IntRange(min=0), default=100, show_default=True, help="How many at most; 0 for all."
)
@pass_session
def ls(session: Session, limit: int) -> None:
    """List the logbooks, without what is in them; not those of jobs whose record is gone."""
    books = session.board().books()
    rows = [book_row(info) for info in itertools.islice(books, limit or None)]
    columns = ("uuid", "name", "owner", "entries", "saved_at", "fault")
    session.output.table(columns, rows, empty="no logbooks")
    warn_of_rest(session, books, len(rows))


@command("show", "jobboard book show 3f2a", "jobboard book show 3f2a --details --json")
@click.argument("book")
@click.option("--details", is_flag=True, help="Its meta and its entries, too.")
@pass_session
def show(session: Session, book: str, details: bool) -> None:
    """Show a logbook; BOOK is its uuid, or its beginning or end."""
    board = session.board()
    session.output.record(book_view(board.load_book(find_book(board, book)), with_details=details))


@command("rm", "jobboard book rm 3f2a --yes")
@click.argument("book")
@yes_option
@pass_session
def rm(session: Session, book: str, yes: bool) -> None:
    """Delete a logbook with its entries for good; asks first. Jobs that point at it stay, and don't find it."""
    board = session.board()
    uuid = find_book(board, book)
    if not yes:
        confirm(f"Delete logbook {uuid} of board {session.name!r}?")
    board.destroy_book(uuid)
    session.output.report({"uuid": uuid}, f"logbook {uuid} is deleted")


COMMANDS = (
    click.Group(
        "book",
        commands=[ls, show, rm],
        help="Logbooks: what jobs write down for those who go on.",
        epilog="\b\nExamples:\n  jobboard book ls\n  jobboard book show 3f2a --details",
    ),
)
