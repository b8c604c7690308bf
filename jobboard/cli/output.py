"""The output of commands: tables on a terminal, tab-separated lines in a pipe, JSON on request."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jobboard.operate.views import plain
from jobboard.text import steers, utc

if TYPE_CHECKING:
    from rich.console import Console

Step = Any

#: Moments that a terminal shows relative to now.
_RELATIVE = {"created_on", "trashed_on", "last_seen", "oldest", "next_expiry"}
#: A terminal leaves out a column that has only these values or none.
_DEFAULTS = (("priority", "NORMAL"), ("attempts", 0))


class Output:
    """Writes to standard output, with colours and tables only on a terminal."""

    def __init__(self) -> None:
        self.json = False
        for stream in (sys.stdout, sys.stderr):
            # A command must not fail because the locale can't encode a name.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")

    @cached_property
    def console(self) -> Console:
        return _console()

    @cached_property
    def _errors(self) -> Console:
        return _console(stderr=True)

    @property
    def is_terminal(self) -> bool:
        return self.console.is_terminal

    def say(self, text: str, style: str = "") -> None:
        """Say what was done; nothing with ``--json``, where the data says it.

        :param style: a colour of rich, for terminals.
        """
        if self.json:
            return
        if style and self.is_terminal:
            self.console.print(safe(text), style=style, markup=False, emoji=False, soft_wrap=True)
        else:
            print(safe(text))

    def report(self, data: Any, text: str) -> None:
        """Say what was done; with ``--json`` write the data instead."""
        if self.json:
            self.data(data)
        self.say(text)

    def data(self, value: Any) -> None:
        """Write one JSON line."""
        # The only control character of ASCII that JSON does not escape.
        print(json.dumps(plain(value)).replace("\x7f", "\\u007f"), flush=True)

    def hint(self, text: str) -> None:
        """Tell somebody at a terminal something useful."""
        if self.is_terminal and not self.json:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Write a warning to standard error."""
        self._print_error(safe(text))

    def table(
        self, columns: Sequence[str], rows: Sequence[dict[str, Any]], *, empty: str, droppable: bool = True
    ) -> None:
        """Write rows: all fields as JSON, otherwise these columns.

        In a pipe the first line names the columns. Without rows there is one line, ``empty``.

        :param droppable: whether a terminal leaves out columns that are empty, or for which it is too narrow.
        """
        if self.json:
            self.data(rows)
        elif not rows:
            self.say(empty)
        elif self.is_terminal:
            wanted = [column for column in columns if not droppable or _has_content(column, rows)]
            self._draw_table(wanted, rows, droppable)
        else:
            print("\t".join(columns))
            for row in rows:
                print("\t".join(_in_one_cell(shown(row.get(column))) for column in columns))

    def _draw_table(self, columns: Sequence[str], rows: Sequence[dict[str, Any]], droppable: bool) -> None:
        from rich.text import Text

        from jobboard.cli.colours import style_of
        from jobboard.cli.tables import table_of

        cells = {
            column: [Text(_cell(column, row.get(column)), style_of(column, row.get(column))) for row in rows]
            for column in columns
        }
        table = table_of(cells, self.console.width, droppable=droppable)
        if table is not None:
            self.console.print(table)
            return
        for number, row in enumerate(rows):
            if number:
                self.say("")
            self.record({column: row.get(column) for column in columns})

    def record(self, record: dict[str, Any]) -> None:
        """Write one object, a field per line."""
        if self.json:
            self.data(record)
            return
        width = max(len(field) for field in record)
        for field, value in record.items():
            if value not in (None, [], ""):
                lines = shown(value).splitlines() or [""]
                indented = ("\n" + " " * (width + 2)).join(lines)
                self._print_field(f"{field.replace('_', ' '):<{width}}  ", field, value, indented)

    def _print_field(self, title: str, field: str, value: Any, text: str) -> None:
        if not self.is_terminal:
            print(title + text)
            return
        from rich.text import Text

        from jobboard.cli.colours import style_of

        self.console.print(Text(title) + Text(text, style_of(field, value)), soft_wrap=True)

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Step]:
        """Show a progress bar on a terminal; gives the function to call after this many steps."""
        if self.json or not total or not self._errors.is_terminal:
            yield lambda steps=1: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self._errors, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda steps=1: bar.advance(task, steps)

    def error(self, message: str) -> None:
        """Write an error, which is always one line."""
        line = f"jobboard: {safe(message)}".replace("\n", " ")
        try:
            self._print_error(line, style="red" if self._errors.is_terminal else "")
        except BrokenPipeError:
            pass

    def _print_error(self, line: str, style: str = "") -> None:
        self._errors.print(line, style=style, markup=False, emoji=False, soft_wrap=True)


def _console(stderr: bool = False) -> Console:
    # Importing rich takes longer than all else that most commands import, and --help does not need it.
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def shown(value: Any) -> str:
    """Return a value as text for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        # A schedule's may be in the zone of the schedule, and says its offset then.
        return utc(value) if value.tzinfo is UTC else value.isoformat(" ", "seconds")
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(shown(item) for item in value)
    if isinstance(value, dict):
        return safe(json.dumps(plain(value), ensure_ascii=False))
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 100_000 else f"{value:.3f}".removesuffix(".000")
    return safe(str(value))


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _has_content(column: str, rows: Sequence[dict[str, Any]]) -> bool:
    values = (row.get(column) for row in rows)
    return any(value is not None and (column, value) not in _DEFAULTS for value in values)


def _cell(column: str, value: Any) -> str:
    return _age(value) if column in _RELATIVE and isinstance(value, datetime) else shown(value)


def _age(moment: datetime) -> str:
    seconds = (datetime.now(UTC) - moment).total_seconds()
    size = abs(seconds)
    units = (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800), ("d", 86_400, math.inf))
    text = next(f"{size / length:.0f} {unit}" for unit, length, end in units if size < end)
    return f"{text} ago" if seconds >= 0 else f"in {text}"


def safe(text: str) -> str:
    """Escape control characters and separators: a job's data must not control an operator's terminal."""
    return "".join(
        character if character in "\n\t" or not steers(character) else _escaped(character) for character in text
    )


def _in_one_cell(text: str) -> str:
    return text.replace("\n", " ").replace("\t", " ")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


#: What a standard stream raises that a handler has closed, or replaced by something else.
TAKEN_AWAY = (ValueError, AttributeError)


def flush_streams() -> None:
    """Flush the standard streams; nobody hears what is left of one that a handler has closed or taken away.

    :raises OSError: standard output can't be written.
    """
    for name in ("stderr", "stdout"):
        stream = getattr(sys, name)
        try:
            if stream is not None:
                stream.flush()
        except (*TAKEN_AWAY, OSError) as error:
            if name == "stdout" and isinstance(error, OSError) and error.errno != errno.EBADF:
                raise
            # Python would try it again at exit, and report the failure.
            setattr(sys, name, None)


def discard_stdout() -> None:
    """Send standard output, which has failed, to nowhere: Python would try it again at exit and report the failure."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
