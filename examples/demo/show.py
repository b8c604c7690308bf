"""What the demo shows on a terminal while it runs: a bar, and who owns what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from demo.crew import Crew, Member


class Show:
    """A live display; does nothing when it is not on a terminal."""

    def __init__(self, live: Live | None) -> None:
        self._live = live
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns)
        self._task = self._bar.add_task("posting", total=None)

    def posted(self, number: int) -> None:
        """Show how many jobs are on the board so far."""
        if self._live is not None:
            self._bar.update(self._task, completed=number)
            self._live.update(self._bar)

    def killed(self, member: Member, held: int) -> None:
        """Say once whom it hit, and how many jobs it held."""
        if self._live is not None:
            words = f"kill -9 {member.process.pid}: {member.label}, while it holds {held} jobs"
            self._live.console.print(words, style="bold red", highlight=False)

    def working(self, done: int, total: int, crew: Crew, held: Mapping[str | None, int]) -> None:
        """Show how many are done, and how many each conductor holds."""
        if self._live is None:
            return
        self._bar.update(self._task, description="hashing", completed=done, total=total)
        table = Table("conductor", "pid", "state", "holds", box=None, pad_edge=False)
        for member in crew.members:
            state = "killed" if member.killed else "works" if member.running else "ended"
            style = "red" if member.killed else ""
            table.add_row(member.label, str(member.process.pid), state, str(held.get(member.owner, 0)), style=style)
        self._live.update(Group(self._bar, table))


@contextmanager
def show(wanted: bool) -> Iterator[Show]:
    """Open the display on standard error, if that is a terminal and it is wanted."""
    console = Console(stderr=True)
    if not (wanted and console.is_terminal):
        yield Show(None)
        return
    with Live(console=console, refresh_per_second=10) as live:
        yield Show(live)
