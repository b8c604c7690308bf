"""The demo from the first posting to the last sum."""

from __future__ import annotations

import itertools
import os
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from jobboard.board import JobBoard
from jobboard.demo.crew import Crew
from jobboard.demo.handlers import NAME
from jobboard.demo.show import Show, show
from jobboard.demo.sums import line_of, write_sums
from jobboard.demo.tree import Tree
from jobboard.entry import JobState
from jobboard.errors import JobBoardError
from jobboard.fetching import backend
from jobboard.posting import Posting

_BATCH = 500
_LOOK_EVERY = 0.1
#: Results must outlive the work; the demo's board is its own, so nobody else's records are kept longer.
_RETENTION = 86_400.0


@dataclass
class Report:
    """What the demo did."""

    jobs: int = 0
    seconds: float = 0.0
    skipped: int = 0
    unreadable: list[tuple[bytes, str]] = field(default_factory=list)
    kill_wanted: bool = False
    killed: str | None = None
    taken_over: int = 0
    owners: dict[str, int] = field(default_factory=dict)


class Demo:
    """One run, on a board of its own name, which is left empty.

    :param uri: the store. :param directory: as it was given, which is how paths begin in the output.
    :param output: where the sums go. :param kill: whether one conductor is killed halfway.
    """

    def __init__(
        self, uri: str, directory: str, output: Path, *, conductors: int, slots: int, kill: bool, display: bool
    ) -> None:
        self._uri = f"{uri}{'&' if '?' in uri else '?'}retention={_RETENTION:g}"
        self._directory = directory
        self._output = output
        self._conductors = conductors
        self._slots = slots
        self._display = display
        self._held_by_the_dead: set[str] = set()
        self._report = Report(kill_wanted=kill and conductors > 1)

    def run(self) -> Report:
        """Do it all; raises ``JobBoardError`` if it can't be done, and leaves no process behind."""
        if not os.path.isdir(self._directory):
            what = "is not a directory" if os.path.exists(self._directory) else "does not exist"
            raise JobBoardError(f"{self._directory} {what}")
        with backend(f"demo-{secrets.token_hex(4)}", self._uri) as board:
            begin = time.monotonic()
            total = self._post(board)
            if total:
                with Crew(self._uri, board, self._conductors, self._slots) as crew, show(total, self._display) as shown:
                    self._watch(board, crew, total, shown)
            self._report.jobs = total
            self._report.seconds = time.monotonic() - begin
            self._collect(board, total)
        return self._report

    def _post(self, board: JobBoard) -> int:
        tree = Tree(self._directory, self._output)
        files, total = tree.files(), 0
        while batch := list(itertools.islice(files, _BATCH)):
            board.post_many([Posting(NAME, details={"path": path}) for path in batch])
            total += len(batch)
        self._report.skipped = tree.skipped
        self._report.unreadable += tree.unreadable
        return total

    def _watch(self, board: JobBoard, crew: Crew, total: int, shown: Show) -> None:
        """Look on until nothing is left on the board; kill one conductor when half of it is done."""
        wants_kill = self._report.kill_wanted
        while live := board.job_count:
            crew.check()
            crew.meet()
            if wants_kill and total - live >= total // 2:
                wants_kill = not self._try_to_kill(crew)
            held = Counter(job.record.owner for job in board.iterjobs(states={JobState.CLAIMED}))
            shown.update(total - live, crew, held)
            time.sleep(_LOOK_EVERY)
        shown.update(total, crew, {})

    def _try_to_kill(self, crew: Crew) -> bool:
        held = crew.kill_one()
        if held is None:
            return False
        self._held_by_the_dead = held
        self._report.killed = next(member.label for member in crew.members if member.killed)
        return True

    def _collect(self, board: JobBoard, total: int) -> None:
        """Check that every job came to exactly one end, and write the sums."""
        sums: dict[bytes, str] = {}
        ended = 0
        for job in board.iterjobs(states={JobState.COMPLETE}):
            ended += 1
            sums[(job.details or {})["path"]] = job.record.result
            owner = (job.record.owner or "").partition("@")[0]
            self._report.owners[owner] = self._report.owners.get(owner, 0) + 1
            self._report.taken_over += job.uuid in self._held_by_the_dead and job.record.attempts > 1
        for job in board.trashed():
            ended += 1
            self._report.unreadable.append(((job.details or {})["path"], job.record.reason or ""))
            board.purge(job.uuid)
        if ended != total or len(sums) + sum(1 for _ in self._report.unreadable) < total:
            raise JobBoardError(f"{total} jobs were posted, but {ended} have ended: please report this")
        write_sums(self._output, (line_of(digest, path) for path, digest in sorted(sums.items())))
