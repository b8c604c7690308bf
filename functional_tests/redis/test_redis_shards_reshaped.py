"""Servers come and go under load, by commands that are killed and repeated; nothing is lost or doubled."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from harnesses import shard_crew
from servers.redis_servers import RedisServer

from jobboard import fetch
from jobboard.testing import eventually

Run = tuple[str, str, str, float, float]


class Crew:
    """The processes of a test, each with a diary."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, role: str, uris: list[str]) -> subprocess.Popen[bytes]:
        diary = self._folder / f"{role}-{len(self._processes)}"
        process = subprocess.Popen([sys.executable, shard_crew.__file__, role, str(diary), *uris])
        self._processes.append(process)
        return process

    def stop(self, *processes: subprocess.Popen[bytes]) -> None:
        for process in processes:
            process.terminate()
        for process in processes:
            assert process.wait(60) == 0

    def posted(self) -> list[str]:
        return [line for path in self._folder.glob("producer-*") for line in path.read_text().splitlines()]

    def runs(self) -> list[Run]:
        lines = [line for path in self._folder.glob("conductor-*") for line in path.read_text().splitlines()]
        parts = [line.split("|") for line in lines]
        return [(uuid, key, lane, float(begun), float(ended)) for uuid, key, lane, begun, ended in parts]

    def kill(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    crew.kill()


def shards(uris: list[str], *arguments: str, killed_after: float | None = None) -> None:
    """Run the command; it is killed after so many seconds first, and then repeated."""
    board = "shards://?" + "&".join(f"uri={quote(uri, safe='')}" for uri in uris)
    command = [sys.executable, "-m", "jobboard", "--board", board, "--name", "jobs", "shards", *arguments]
    if killed_after is not None:
        process = subprocess.Popen(command)
        time.sleep(killed_after)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    subprocess.run(command, check=True, timeout=300)


def overlaps(runs: list[Run], part: int) -> list[tuple[Run, Run]]:
    """Return pairs of runs of one key (1) or lane (2) that went on at the same time."""
    with_it = sorted((run for run in runs if run[part]), key=lambda run: (run[part], run[3]))
    pairs = itertools.pairwise(with_it)
    return [(first, second) for first, second in pairs if first[part] == second[part] and second[3] < first[4]]


def most_at_once(runs: list[Run]) -> int:
    moments = sorted([(begun, 1) for *_, begun, _ in runs] + [(ended, -1) for *_, ended in runs])
    return max(itertools.accumulate(step for _, step in moments))


@pytest.mark.parametrize("limit", [1, 2])
def test_no_more_of_a_name_run_than_its_limit_whoever_is_killed(tmp_path: Path, crew: Crew, limit: int) -> None:
    """On two servers and a file. Who moves slots is killed again and again."""
    with ExitStack() as stack:
        uris = [*(stack.enter_context(RedisServer()).uri for _ in range(2)), f"sqlite:///{tmp_path}/third.db"]
        board = stack.enter_context(fetch("jobs", "shards://", uris=uris))
        for number in range(20):
            board.post("resize", key=f"early {number}")
        board.limits.set(name="resize", running=limit)
        workers = [crew.start("conductor", uris) for _ in range(3)]
        producers = [crew.start("producer", uris)]
        for number in range(4):
            mover = crew.start("mover", uris)
            before = len(crew.runs())
            eventually(lambda before=before: len(crew.runs()) > before + 15, within=120)  # type: ignore[misc]
            time.sleep(0.03 * number)
            mover.kill()
            assert mover.wait(60) == -signal.SIGKILL
        crew.stop(*producers)
        runs = crew.runs()
        assert 1 <= most_at_once(runs) <= limit
        # What is left may go faster.
        board.limits.remove(name="resize")
        eventually(lambda: board.job_count == 0, within=240)
        crew.stop(*workers)
        assert board.audit() == []
    runs, posted = crew.runs(), crew.posted()
    assert set(posted) <= {run[0] for run in runs}
    assert len({run[0] for run in runs}) == len(runs)


@pytest.mark.turn_of("servers that come and go")
@pytest.mark.timeout(300)
def test_nothing_is_lost_or_doubled_while_servers_come_and_go(tmp_path: Path, crew: Crew) -> None:
    with ExitStack() as stack:
        redis = [stack.enter_context(RedisServer()).uri for _ in range(2)]
        old, file = [*redis], f"sqlite:///{tmp_path}/third.db"
        with fetch("jobs", "shards://", uris=old) as board:
            board.limits.set(lane="tenant:*", running=1)
        workers = [crew.start("conductor", old) for _ in range(2)]
        producers = [crew.start("producer", old) for _ in range(2)]
        eventually(lambda: len(crew.runs()) > 100, within=60)
        shards(old, "add", file, killed_after=3.0)
        new = [*old, file]
        # Conductors first: what posts would else fill a shard that nobody claims from.
        workers += [crew.start("conductor", new) for _ in range(2)]
        crew.stop(*workers[:2])
        producers += [crew.start("producer", new) for _ in range(2)]
        crew.stop(*producers[:2])
        shards(new, "open", "2", killed_after=4.0)
        shards(new, "drain", "0", killed_after=9.0)
        shards(new, "remove", "0", killed_after=4.0)
        before = len(crew.runs())
        eventually(lambda: len(crew.runs()) > before + 100, within=60)
        crew.stop(*producers[2:])
        with fetch("jobs", "shards://", uris=new[1:]) as board:
            eventually(lambda: board.job_count == 0, within=60)
            assert board.audit() == []
        crew.stop(*workers[2:])
        with fetch("jobs", redis[0]) as part:
            assert part.job_count == 0
    runs, posted = crew.runs(), crew.posted()
    assert len(posted) == len(set(posted)) > 1000
    done = Counter(run[0] for run in runs)
    assert set(posted) <= set(done)
    assert max(done.values()) == 1
    assert overlaps(runs, 1) == overlaps(runs, 2) == []
