"""The demo from the first posting to the last sum."""

from __future__ import annotations

import itertools
import os
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from demo.crew import Crew
from demo.handlers import NAME
from demo.show import Show, show
from demo.sums import check_output, line_of, write_sums
from demo.tree import Tree
from jobboard.board import JobBoard
from jobboard.errors import JobBoardError
from jobboard.fetching import backend
from jobboard.job import Posting
from jobboard.states import JobState

_BATCH = 500
_LOOK_EVERY = 0.1
#: A small tree is soon done, and the kill must not come too late.
_LOOK_EVERY_BEFORE_KILL = 0.02
#: Results must outlive the work; the demo's board is its own, so nobody else's records are kept longer.
_RETENTION = 86_400.0
#: A claim that expires costs an attempt, and claims are short here: on a slow machine some of the living expire too.
_ATTEMPTS = 50


@dataclass
class Report:
    """What the demo did."""

    board: str
    jobs: int = 0
    seconds: float = 0.0
    skipped: int = 0
    unreadable: list[tuple[bytes, str]] = field(default_factory=list)
    killed: str | None = None
    taken_over: int = 0
    owners: dict[str, int] = field(default_factory=dict)


class Demo:
    """One run, on a board of its own name; no job is left on it, only the records of the completed ones for a day.

    :param uri: the store. :param directory: as it was given, which is how paths begin in the output.
    :param output: where the sums go. :param kill: whether one conductor is killed halfway.
    """

    def __init__(
        self, uri: str, directory: str, output: Path, *, conductors: int, slots: int, kill: bool, display: bool
    ) -> None:
        # In the URI, because it is the conductors who consume.
        self._uri = f"{uri}{'&' if '?' in uri else '?'}retention={_RETENTION:g}"
        self._directory = directory
        self._output = output
        self._conductors = conductors
        self._slots = slots
        self._display = display
        self._wants_kill = kill and conductors > 1
        self._held_by_the_dead: set[str] = set()
        self._report = Report(f"demo-{secrets.token_hex(4)}")

    @property
    def board(self) -> str:
        """The name of the board that it runs on."""
        return self._report.board

    def run(self) -> Report:
        """Do it all; raises ``JobBoardError`` if it can't be done, and leaves no process behind."""
        if not os.path.isdir(self._directory):
            what = "is not a directory" if os.path.exists(self._directory) else "does not exist"
            raise JobBoardError(f"{self._directory} {what}")
        check_output(self._output)
        with backend(self.board, self._uri) as board:
            if not board.capabilities.processes:
                raise JobBoardError(f"a {board.store} board lives within one process; the demo starts several")
            self._work(board)
            self._collect(board)
        return self._report

    def _work(self, board: JobBoard) -> None:
        begin = time.monotonic()
        with show(self._display) as shown:
            self._post(board, shown)
            if self._report.jobs:
                with Crew(self._uri, board, self._conductors, self._slots) as crew:
                    self._watch(board, crew, shown)
                    self._report.seconds = time.monotonic() - begin

    def _post(self, board: JobBoard, shown: Show) -> None:
        tree = Tree(self._directory, self._output)
        files = tree.files()
        while batch := list(itertools.islice(files, _BATCH)):
            board.post_many([Posting(NAME, details={"path": path}, max_attempts=_ATTEMPTS) for path in batch])
            self._report.jobs += len(batch)
            shown.posted(self._report.jobs)
        self._report.skipped = tree.skipped
        self._report.unreadable += tree.unreadable

    def _watch(self, board: JobBoard, crew: Crew, shown: Show) -> None:
        """Look on until nothing is left on the board; kill one conductor when half of it is done."""
        total = self._report.jobs
        while live := board.job_count:
            crew.check()
            crew.meet()
            if self._wants_kill and total - live >= total // 2:
                self._wants_kill = not self._try_to_kill(crew, shown)
            held = Counter(job.record.owner for job in board.iterjobs(states={JobState.CLAIMED}))
            shown.working(total - live, total, crew, held)
            time.sleep(_LOOK_EVERY_BEFORE_KILL if self._wants_kill else _LOOK_EVERY)
        shown.working(total, total, crew, {})

    def _try_to_kill(self, crew: Crew, shown: Show) -> bool:
        held = crew.kill_one()
        if held is None:
            return False
        self._held_by_the_dead = held
        [killed] = [member for member in crew.members if member.killed]
        self._report.killed = killed.label
        shown.killed(killed, len(held))
        return True

    def _collect(self, board: JobBoard) -> None:
        """Check that every job came to exactly one end, and write the sums."""
        sums = self._sums(board)
        broken = [(job, (job.details or {})["path"]) for job in board.trashed()]
        if len(sums) + len(broken) != self._report.jobs:
            raise JobBoardError(
                f"{self._report.jobs} jobs were posted, but {len(sums)} are complete and {len(broken)} in the trash; "
                "please report this"
            )
        write_sums(self._output, (line_of(digest, path) for path, digest in sorted(sums.items())))
        for job, path in broken:
            self._report.unreadable.append((path, job.record.reason or ""))
            board.purge(job.uuid)

    def _sums(self, board: JobBoard) -> dict[bytes, str]:
        sums: dict[bytes, str] = {}
        for job in board.iterjobs(states={JobState.COMPLETE}):
            path, owner = (job.details or {})["path"], (job.record.owner or "").partition("@")[0]
            if path in sums:
                raise JobBoardError(f"{os.fsdecode(path)!r} was done by two jobs; please report this")
            sums[path] = job.record.result
            self._report.owners[owner] = self._report.owners.get(owner, 0) + 1
            self._report.taken_over += job.uuid in self._held_by_the_dead and job.record.attempts > 1
        return sums
