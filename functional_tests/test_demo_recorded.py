"""The demo in a real terminal, as the picture on the first page shows it.

``JOBBOARD_PICTURES=FOLDER`` keeps the picture; the one of the pages is in ``doc/_static``. What both must tell is the
same: they differ in times, process ids, and in who was killed.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from harnesses.terminal import terminal
from harnesses.terminal_svg import film, rows_of

pytestmark = pytest.mark.turn_of("the demo")

ROOT = Path(__file__).parent.parent
PICTURE = "killed-worker.svg"
MAX_BYTES = 60_000
FILES = 2000
COMMANDS = ("jobboard/bin/demo files", "sha256sum -c --quiet SHA256SUMS && wc -l < SHA256SUMS")
TITLE = (
    f"A terminal: the demo posts {FILES} jobs and kills one of its three workers by kill -9 halfway; others do the "
    "jobs that it held. At the end none is lost and none was done twice, and sha256sum finds all files right."
)


@dataclass(frozen=True)
class Facts:
    """What a picture tells, read from what its last screen and its rows show."""

    commands: tuple[str, ...]
    posted: int
    #: The label of the worker that was killed, by the moment of the kill, the table, and the end.
    killed: tuple[str, str, str]
    #: How many jobs it held, and how many others took over from it.
    held: int
    taken_over: int
    #: How many jobs each worker did.
    done: dict[str, int]
    #: How many files sha256sum found right.
    checked: int


def facts(svg: str) -> Facts:
    rows = rows_of(svg)
    last = [texts[-1] for texts in rows]
    end = "\n".join(last)
    (kill,) = re.findall(r"^kill -9 \d+: (demo-\d), while it holds (\d+) jobs$", end, re.M)
    (posted,) = re.findall(r"^(\d+) jobs in [\d.]+ s, \d+ a second: none is lost, none was done twice$", end, re.M)
    (summary,) = re.findall(r"^(demo-\d) was killed; taken over from it, and done by others: (\d+)$", end, re.M)
    (checked,) = re.findall(r"^(\d+)\n\$$", end, re.M)
    (row,) = re.findall(r"^(demo-\d) +\d+ +killed +0$", end, re.M)
    return Facts(
        commands=tuple(line.removeprefix("$ ") for line in last if line.startswith("$ ")),
        posted=int(posted),
        killed=(kill[0], row, summary[0]),
        held=int(kill[1]),
        taken_over=int(summary[1]),
        done={label: int(number) for label, number in re.findall(r"^ *(demo-\d): (\d+)$", end, re.M)},
        checked=int(checked),
    )


def check(told: Facts) -> None:
    assert told.commands == COMMANDS
    assert len(set(told.killed)) == 1
    # All that it held was in the hands of another one later; what was done is what was posted, and each is there once.
    assert 0 < told.taken_over <= told.held
    assert set(told.done) <= {"demo-1", "demo-2", "demo-3"}
    assert (told.posted, sum(told.done.values()), told.checked) == (FILES, FILES, FILES)


def test_the_recorded_demo_tells_what_the_real_one_does(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    for number in range(FILES):
        (tmp_path / f"files/{number}").write_bytes(os.urandom(600))
    (tmp_path / "jobboard").symlink_to(ROOT)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with terminal(tmp_path, {"PATH": path, "PYTHON": sys.executable}) as shell:
        for command in COMMANDS:
            shell.run(command)
    svg = film(shell.screens, TITLE)
    folder = Path(os.environ.get("JOBBOARD_PICTURES") or tmp_path)
    (folder / PICTURE).write_text(svg)
    check(facts(svg))
    assert len(svg.encode()) < MAX_BYTES


def test_the_picture_of_the_first_page_is_of_this_demo() -> None:
    svg = (ROOT / "doc/_static" / PICTURE).read_text()
    check(facts(svg))
    assert TITLE in svg
    for page in ("README.rst", "doc/index.rst"):
        assert f":alt: {TITLE}" in " ".join((ROOT / page).read_text().split()), page
    assert len(svg.encode()) < MAX_BYTES
