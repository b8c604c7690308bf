"""An operator who does what a section of the documentation shows, and nothing else: runs commands, or clicks."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harnesses.browser import Browser


_GUIDES = Path(__file__).parent.parent.parent / "doc" / "guides"
_COMMAND = re.compile(r"^    ((?:jobboard|kill) .+?)(?:  +#.*)?$", re.MULTILINE)


def _section(page: str, title: str) -> str:
    begins = rf"^{re.escape(title)}\n[~-]+\n(.*?)(?=^[^\n]+\n[~-]+\n)"
    found = re.search(begins, (_GUIDES / page).read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


class Operator:
    """Runs commands of one section on one board.

    :param section: its title.
    """

    def __init__(self, section: str, uri: str) -> None:
        self.left = _COMMAND.findall(_section("operators.rst", section))
        self._environment = {**os.environ, "JOBBOARD_URI": uri, "JOBBOARD_NAME": "night"}

    def words(self, command: str, **stand_ins: str) -> list[str]:
        """Return a command of the section as arguments, with these in the place of the section's own words."""
        self.left.remove(command)
        return [stand_ins.get(word, word) for word in shlex.split(command)]

    def run(self, command: str, stand_ins: dict[str, str] | None = None, *, status: int | None = 0) -> str:
        """Run a command of the section, which exits with this status (None: any); returns what it says."""
        return self.run_words(self.words(command, **(stand_ins or {})), status)

    def look_again(self, command: str) -> tuple[int, str]:
        """Run a command once more; returns its exit status and what it says."""
        done = self._run(shlex.split(command))
        return done.returncode, done.stdout

    def run_words(self, words: list[str], status: int | None) -> str:
        done = self._run(words)
        assert status in (None, done.returncode), (words, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *words] if words[0] == "jobboard" else words
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=60, check=False)


class Clicks:
    """Clicks what is bold in one section of the console's guide, in its order.

    :param section: its title.
    """

    def __init__(self, web: Browser, section: str) -> None:
        self._web = web
        self._left = re.findall(r"\*\*(.+?)\*\*", _section("console.rst", section))

    def click(self, words: str, *, is_called: str | None = None, within: str = "body") -> None:
        """Click these words of the guide; on the page they may be called otherwise, such as by a uuid."""
        assert words == self._left.pop(0)
        self._web.click(is_called or words, within)

    def check_all_is_done(self) -> None:
        assert self._left == []
