"""The processes of a history: started, killed and replaced, stopped and continued, and their clocks stepped."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jobboard import JobBoard
from jobboard.testing import eventually

from .nemesis import Disturbance
from .process import play

_LIBRARY = "libfaketimeMT.so.1"
#: Seconds that an orderly end may take: the call that is under way, and the closing of the board.
_FAREWELL = 90.0
_STEPS = ("+0", "+86400", "-86400", "+5", "-5", "+3600", "-3600")


@dataclass(frozen=True)
class Settings:
    """What every process of a history is told.

    :param clock: whether its wall clock can be stepped.
    :param code: where another version of jobboard is that it imports; ours if it is empty.
    """

    uri: str
    board: str
    options: dict[str, Any]
    folder: Path
    seed: int
    rate: float
    clock: bool
    code: str = ""


class Member:
    """The processes that have one clock, one after the other; forked by a process that has everything imported.

    :param label: the beginning of their names, whose first letter says what they do.
    """

    def __init__(self, settings: Settings, label: str) -> None:
        self._label, self._code = label, settings.code
        self._generation = 0
        self.clock, self.log = settings.folder / f"clock-{label}", settings.folder / f"{label}.log"
        path = [settings.code, str(Path(__file__).parent.parent)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
        if settings.clock:
            self.clock.write_text("+0")
            environment |= {"LD_PRELOAD": str(faketime()), "FAKETIME_TIMESTAMP_FILE": str(self.clock),
                            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_CACHE_DURATION": "1"}  # fmt: skip
        told = {**asdict(settings), "folder": str(settings.folder)}
        # -P keeps the present folder, which may have our code, off the path.
        command = [sys.executable, "-P", "-m", "histories.process", json.dumps(told)]
        with self.log.open("ab") as log:
            self._parent = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                bufsize=1,
            )  # fmt: skip
        self._pid = 0

    @property
    def name(self) -> str:
        return f"{self._label}.{self._generation}"

    def until_ready(self) -> None:
        assert self._parent.stdout is not None
        imported = self._parent.stdout.readline()
        assert imported, self.log.read_text()
        assert imported.startswith(self._code)

    def start(self) -> None:
        self._pid = self._tell(f"start {self.name}")

    def replace(self) -> None:
        self._generation += 1
        self.start()

    def send(self, number: signal.Signals) -> None:
        os.kill(self._pid, number)

    def wait(self) -> int:
        """Return what it ended with; negative for a signal."""
        return self._tell(f"wait {self._pid}")

    def has_ended(self) -> bool:
        return Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

    def close(self) -> None:
        """Closes the parent's standard input, with which all end."""
        self._parent.__exit__(None, None, None)

    def _tell(self, line: str) -> int:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(f"{line}\n")
        return int(self._parent.stdout.readline())


class Crew:
    """Several processes; one that is killed is replaced, and its successor has a plan of its own.

    :param settings: what each is told, by the beginning of its name.
    """

    def __init__(self, settings: Mapping[str, Settings]) -> None:
        self._clock = all(each.clock for each in settings.values())
        self._members = [Member(each, label) for label, each in settings.items()]
        #: What was wrong with processes that ended by themselves, or would not end.
        self.faults: list[str] = []

    def start(self) -> None:
        for member in self._members:
            member.until_ready()
        for member in self._members:
            member.start()

    def stop(self) -> None:
        """Let each finish its call and close its board."""
        for member in self._members:
            member.send(signal.SIGTERM)
        for member in self._members:
            try:
                eventually(member.has_ended, within=_FAREWELL, every=0.05)
            except AssertionError:
                self.faults.append(f"{member.name} did not end within {_FAREWELL:.0f} s of SIGTERM: see {member.log}")
                member.send(signal.SIGUSR1)
                with contextlib.suppress(AssertionError):
                    eventually(lambda member=member: member.log.stat().st_size, within=2)
                member.send(signal.SIGKILL)
            self._look_at_end(member)
            member.close()

    def kill(self, _seconds: float, pick: float, _over: threading.Event) -> str:
        """End a process without a warning, and replace it; return its name."""
        member = self._one_of(pick)
        name = member.name
        member.send(signal.SIGKILL)
        self._look_at_end(member)
        member.replace()
        return name

    def pause(self, seconds: float, pick: float, over: threading.Event) -> str:
        """Stop a process for some seconds, mostly beyond the expiry of its claims; return its name."""
        member = self._one_of(pick)
        member.send(signal.SIGSTOP)
        over.wait(2 * seconds)
        member.send(signal.SIGCONT)
        return member.name

    def step_clock(self, _seconds: float, pick: float, _over: threading.Event) -> str:
        """Step the wall clock of a process by up to a day, there or back; return its name."""
        member = self._one_of(pick)
        member.clock.write_text(random.Random(pick).choice(_STEPS))
        return member.name

    def disturbances(self) -> dict[str, Disturbance]:
        """What a nemesis may do to it, by the kind of fault."""
        faults: dict[str, Disturbance] = {"kill": self.kill, "pause": self.pause}
        return faults | ({"step clock": self.step_clock} if self._clock else {})

    def _one_of(self, pick: float) -> Member:
        return self._members[int(pick * len(self._members))]

    def _look_at_end(self, member: Member) -> None:
        status = member.wait()
        if status not in {0, -signal.SIGKILL}:
            self.faults.append(f"{member.name} ended with {status}:\n{member.log.read_text()[-3000:]}")


class ThreadCrew:
    """Several threads of this process, for a store that is in it; nothing can be done to them."""

    def __init__(self, settings: Mapping[str, Settings], make_board: Callable[[str], JobBoard]) -> None:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._play, args=(f"{label}.0", each, make_board), daemon=True)
            for label, each in settings.items()
        ]
        self.faults: list[str] = []

    def _play(self, name: str, settings: Settings, make_board: Callable[[str], JobBoard]) -> None:
        try:
            with make_board(settings.board) as board:
                play(asdict(settings), board, name, self._stop)
        except Exception as error:
            self.faults.append(f"{name} ended by {error!r}")

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(_FAREWELL)
            if thread.is_alive():
                self.faults.append("a thread did not end")

    def disturbances(self) -> dict[str, Disturbance]:
        return {}


def faketime() -> Path:
    """Return the library that steps a process's wall clock; installs its Debian package if it is missing."""
    found = sorted(Path("/usr/lib").glob(f"*/faketime/{_LIBRARY}"))
    if not found:
        subprocess.run(["apt-get", "install", "-y", "-q", "faketime"], check=True, stdout=subprocess.DEVNULL)
        found = sorted(Path("/usr/lib").glob(f"*/faketime/{_LIBRARY}"))
    assert found, f"{_LIBRARY} is missing; install the package faketime"
    return found[0]
