"""How commands speak: tables on a terminal, tab-separated lines in a pipe, JSON when asked."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from jobboard.operate.views import plain

Step = Any


class Output:
    """Writes to standard output; colours and tables only if that is a terminal."""

    def __init__(self) -> None:
        self.json = False
        self.console = Console(highlight=False)
        self._errors = Console(stderr=True, highlight=False)

    @property
    def is_terminal(self) -> bool:
        return self.console.is_terminal

    def say(self, text: str) -> None:
        """Tell what was done; nothing in JSON, where the data tells it."""
        if not self.json:
            print(safe(text))

    def data(self, value: Any) -> None:
        """Write one JSON line."""
        print(json.dumps(plain(value)), flush=True)

    def table(self, columns: Sequence[str], rows: Sequence[dict[str, Any]], *, empty: str) -> None:
        """Write rows: all their fields as JSON, or these columns."""
        if self.json:
            self.data(rows)
        elif not rows:
            self.say(empty)
        elif self.is_terminal:
            table = Table(*[column.replace("_", " ") for column in columns], box=None, pad_edge=False)
            for row in rows:
                table.add_row(*[Text(shown(row.get(column))) for column in columns])
            self.console.print(table)
        else:
            print("\t".join(columns))
            for row in rows:
                print("\t".join(shown(row.get(column)).replace("\n", " ") for column in columns))

    def record(self, record: dict[str, Any]) -> None:
        """Write one thing, a field a line."""
        if self.json:
            self.data(record)
            return
        width = max(len(field) for field in record)
        for field, value in record.items():
            if value not in (None, [], ""):
                lines = shown(value).splitlines() or [""]
                indented = ("\n" + " " * (width + 2)).join(lines)
                print(f"{field.replace('_', ' '):<{width}}  {indented}")

    @contextmanager
    def progress(self, what: str, total: int | None) -> Iterator[Step]:
        """Show a bar while a long work goes on, on a terminal; gives what to call at each step."""
        if self.json or not self._errors.is_terminal:
            yield lambda: None
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self._errors, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)

    def error(self, message: str) -> None:
        """Write the one line of a refusal."""
        line = f"jobboard: {safe(message)}".replace("\n", " ")
        try:
            self._errors.print(Text(line, style="red" if self._errors.is_terminal else ""), soft_wrap=True)
        except BrokenPipeError:
            pass


def shown(value: Any) -> str:
    """Return a value as people read it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(shown(item) for item in value)
    if isinstance(value, dict):
        return json.dumps(plain(value), ensure_ascii=False)
    if isinstance(value, float):
        return f"{value:.3g}"
    return safe(str(value))


def safe(text: str) -> str:
    """Show control characters instead of sending them: what a job carries must not steer an operator's terminal."""
    return "".join(
        character
        if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")
        else _escaped(character)
        for character in text
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def let_the_reader_go() -> None:
    """After a reader has closed the pipe, keep Python from complaining about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
