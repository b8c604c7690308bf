"""A terminal in which a real shell runs what is typed, and every screen that it showed."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyte

COLUMNS, ROWS = 72, 16
PROMPT = "$ "
#: Seconds for a key, for a look at the screen, and for a command.
_KEY, _LOOK, _DEADLINE = 0.06, 0.4, 100.0


@dataclass(frozen=True)
class Span:
    """Text of one look, and the column that it begins in."""

    column: int
    text: str
    color: str
    bold: bool


#: The rows of a screen.
Screen = tuple[tuple[Span, ...], ...]


class Terminal:
    """What a shell shows, as (seconds since the start, screen) in :attr:`screens`; only screens that differ."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self._start = time.monotonic()
        self.screens: list[tuple[float, Screen]] = []

    def run(self, command: str) -> None:
        """Type a command key by key, and look on until the shell asks for the next one."""
        self._look_until_prompt()
        for key in command:
            os.write(self._descriptor, key.encode())
            self._look(_KEY)
        os.write(self._descriptor, b"\n")
        self._look(_LOOK)
        self._look_until_prompt()

    def _look_until_prompt(self) -> None:
        deadline = time.monotonic() + _DEADLINE
        while self._screen.display[self._screen.cursor.y].rstrip() != PROMPT.rstrip():
            assert time.monotonic() < deadline, "\n".join(self._screen.display)
            self._look(_LOOK)

    def _look(self, seconds: float) -> None:
        """Read for so long, and keep the screen if it is another one."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._descriptor], [], [], left)[0]:
                self._stream.feed(os.read(self._descriptor, 65_536))
        screen = tuple(_spans(self._screen, row) for row in range(ROWS))
        if not self.screens or self.screens[-1][1] != screen:
            self.screens.append((time.monotonic() - self._start, screen))


def _spans(screen: pyte.Screen, row: int) -> tuple[Span, ...]:
    """Return a row's spans without the space at its end; a space has the look of what stands before it."""
    cells = [screen.buffer[row][column] for column in range(COLUMNS)]
    while cells and cells[-1].data == " ":
        cells.pop()
    spans: list[Span] = []
    for column, cell in enumerate(cells):
        last = spans[-1] if spans else None
        if last is not None and (cell.data == " " or (last.color, last.bold) == (cell.fg, cell.bold)):
            spans[-1] = replace(last, text=last.text + cell.data)
        else:
            spans.append(Span(column, cell.data, cell.fg, cell.bold))
    return tuple(spans)


@contextmanager
def terminal(folder: Path, environment: Mapping[str, str]) -> Iterator[Terminal]:
    """Start a shell there, of a user who has set nothing; it ends with the block."""
    pid, descriptor = pty.fork()
    if pid == 0:
        os.chdir(folder)
        size = {"COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
        variables = {**os.environ, **environment, **size, "TERM": "xterm-256color", "PS1": PROMPT}
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], variables)
    try:
        yield Terminal(descriptor)
    finally:
        os.close(descriptor)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
