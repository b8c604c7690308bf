"""Examines an installation: what is installed, what a board's store is, its clock, and what this login may do."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from uuid import uuid4

from jobboard.backends.findings import Persistence
from jobboard.backends.timelimit import time_limit
from jobboard.board import JobBoard, client_of
from jobboard.errors import JobBoardError, NotSupported
from jobboard.operate.overview import unhandled_schedules
from jobboard.operate.verdict import Limits, of_holders, of_unhandled
from jobboard.stats import COUNTED
from jobboard.text import duration
from jobboard.validation import check_delay

#: Seconds by which this host's clock may differ from the store's before anybody is confused by it.
MAX_CLOCK_DIFFERENCE = 2.0

#: The name and the delay in seconds of the job that a trial posts; it is cancelled at once.
TRIAL_NAME, TRIAL_DELAY = "jobboard-doctor", 86_400.0

_REQUIREMENT = re.compile(r"(?P<package>[A-Za-z0-9._-]+).*?extra == [\"'](?P<extra>[^\"']+)[\"']")

#: What only those need who change jobboard.
_FOR_DEVELOPERS = frozenset({"dev", "docs", "testing"})


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that was looked at.

    :ivar subject: a word for programs.
    :ivar well: False if it keeps the board from working; None if it may be so on purpose, such as a missing extra.
    :ivar text: a sentence for people.
    """

    subject: str
    well: bool | None
    text: str


def installation() -> list[Diagnosis]:
    """Return the versions of jobboard and Python, and of what each extra needs."""
    version, python = metadata.version("jobboard"), platform.python_version()
    return [Diagnosis("jobboard", True, f"jobboard {version} on Python {python}"), *_extras()]


def _extras() -> Iterator[Diagnosis]:
    packages: dict[str, list[str]] = {}
    for requirement in metadata.requires("jobboard") or []:
        found = _REQUIREMENT.match(requirement)
        if found and found["extra"] not in _FOR_DEVELOPERS and found["package"].lower() != "jobboard":
            packages.setdefault(found["extra"], []).append(found["package"])
    for extra, needed in sorted(packages.items()):
        versions = {package: _version_of(package) for package in dict.fromkeys(needed)}
        if missing := [package for package, version in versions.items() if version is None]:
            text = f"{extra}: {', '.join(missing)} missing; pip install 'jobboard[{extra}]' if you need it"
            yield Diagnosis("extra", None, text)
        else:
            listed = ", ".join(f"{package} {version}" for package, version in versions.items())
            yield Diagnosis("extra", True, f"{extra}: {listed}")


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def examine(board: JobBoard, *, timeout: float = 10.0, trial: bool = False) -> list[Diagnosis]:
    """Look at a board that is not connected; of what fails the error is the text, and nothing after it is looked at.

    :param timeout: seconds for all of it.
    :param trial: also post a job named ``jobboard-doctor``, due in a day, and cancel it: whether this login may write.
    """
    found: list[Diagnosis] = []
    try:
        with time_limit(check_delay(timeout, "timeout")), board:
            found.extend(_reading(board))
            if trial:
                found.append(_trial(board))
    except JobBoardError as error:
        found.append(Diagnosis("store", False, str(error)))
    return found


def _reading(board: JobBoard) -> Iterator[Diagnosis]:
    backend = client_of(board).backend
    server = client_of(board).call(backend.maintenance.server_version)
    yield Diagnosis("store", True, f"{board.store}: {server} answers")
    short = [shortage.text for shortage in client_of(board).call(backend.shortages)]
    for fault in (*client_of(board).call(backend.faults), *short):
        yield Diagnosis("store", False, fault)
    before = time.monotonic()
    stats = board.stats()
    took = time.monotonic() - before
    jobs = sum(getattr(stats, state) for state in COUNTED)
    yield Diagnosis("board", True, f"board {board.name!r} has {jobs} jobs; counting them took {took * 1000:.0f} ms")
    yield _clock(backend.now() - time.time(), board)
    yield _persistence(client_of(board).call(backend.persistence))
    held_back = of_holders(client_of(board).call(backend.maintenance.holders), Limits())
    for finding in (*held_back, *of_unhandled(unhandled_schedules(board))):
        yield Diagnosis(finding.kind, None, finding.text)


def _clock(ahead: float, board: JobBoard) -> Diagnosis:
    if board.capabilities.clock != "store":
        return Diagnosis("clock", True, "claims and delays end by the clock of this host")
    which = "ahead of" if ahead > 0 else "behind"
    text = f"the store's clock is {duration(abs(ahead))} {which} this host's"
    if abs(ahead) <= MAX_CLOCK_DIFFERENCE:
        return Diagnosis("clock", True, "the store's clock and this host's agree")
    return Diagnosis("clock", None, f"{text}; claims and delays end by the store's, logs have the host's: run NTP")


def _persistence(persistence: Persistence) -> Diagnosis:
    text = persistence.text
    if persistence.kept is False:
        return Diagnosis("not_durable", None, f"what is on the board does not last: {text}")
    if persistence.kept is None:
        return Diagnosis("durable", None, f"nobody knows whether what is on the board lasts: {text}")
    return Diagnosis("durable", True, f"what is on the board lasts{', but ' * bool(text)}{text}")


def _trial(board: JobBoard) -> Diagnosis:
    job = board.post(TRIAL_NAME, uuid=str(uuid4()), delay=TRIAL_DELAY)
    board.cancel(job)
    return Diagnosis("rights", True, "a job could be posted and cancelled")


def boards_of(board: JobBoard, timeout: float = 10.0) -> list[str]:
    """Return the names of the boards in the store of a board that is not connected; makes nothing.

    :param timeout: seconds.
    :raises NotFound: there is no such store, such as no file.
    :raises BoardUnavailable: it can't be reached or read.
    :raises NotSupported: the store can't tell.
    """
    seconds = check_delay(timeout, "timeout")
    with time_limit(seconds):
        names = client_of(board).backend.boards(seconds)
    if names is None:
        raise NotSupported(f"a {board.store} store can't tell which boards it has")
    return sorted(names)
