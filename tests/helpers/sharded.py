"""Harnesses of boards of shards, on the two embedded stores."""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import jobboard
from helpers.embedded import GARBAGE
from jobboard.backends.address import Address
from jobboard.backends.base import Backend, Capabilities
from jobboard.backends.memory import MemoryBackend
from jobboard.backends.shards import ShardsBackend
from jobboard.backends.shards.placement import text_of_lane
from jobboard.board import JobBoard
from jobboard.job import Job
from jobboard.testing import Harness
from jobboard.testing.faults import LossyBackend
from jobboard.testing.sharding import take_turns


class ShardsHarness(Harness):
    """A board of several stores."""

    backend_class = ShardsBackend

    def uris(self) -> list[str]:
        raise NotImplementedError

    def uri(self) -> str:
        return "shards://?" + "&".join(f"uri={quote(uri, safe='')}" for uri in self.uris())

    @property
    def capabilities(self) -> Capabilities:
        return self.backend("of-nobody").capabilities

    def backend(self, name: str) -> Backend:
        return take_turns(ShardsBackend(name, Address("shards"), uris=self.uris()), self.together)


class MemoryShardsHarness(ShardsHarness):
    """Four shards in memory."""

    def uris(self) -> list[str]:
        return [f"memory://shard-{number}" for number in range(4)]

    def corrupt(self, board: JobBoard, uuid: str) -> None:
        backend = self.backend(board.name)
        assert isinstance(backend, ShardsBackend)
        for shard in backend.fleet.shards:
            assert isinstance(shard, MemoryBackend)
            with shard.store.lock:
                if uuid in shard.store.rows:
                    shard.store.rows[uuid].body = GARBAGE
                    return
        raise AssertionError("no shard has this job")


class SqliteShardsHarness(ShardsHarness):
    """Four files in a directory of the tests' own."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def uris(self) -> list[str]:
        return [f"sqlite:///{self._directory}/shard-{number}.db" for number in range(4)]

    def corrupt(self, board: JobBoard, uuid: str) -> None:
        changed = 0
        for number in range(4):
            with closing(sqlite3.connect(self._directory / f"shard-{number}.db")) as connection, connection:
                changed += connection.execute(
                    "UPDATE jobboard_jobs SET body = ? WHERE uuid = ?", (GARBAGE, uuid)
                ).rowcount
        assert changed == 1

    def write_layout(self, board: JobBoard, number: str) -> str:
        with closing(sqlite3.connect(self._directory / "shard-2.db")) as connection, connection:
            [[before]] = connection.execute("SELECT value FROM jobboard_meta WHERE name = 'version'").fetchall()
            connection.execute("UPDATE jobboard_meta SET value = ? WHERE name = 'version'", (number,))
        return str(before)


#: The shards of a board that counts.
COUNT = 12


class Counting:
    """A board of many shards that counts requests."""

    def __init__(self, harness: MemoryShardsHarness) -> None:
        name = harness.fresh_name()
        whole = ShardsBackend(name, Address("shards"), uris=[f"memory://c{number}" for number in range(COUNT)])
        self._shards = [LossyBackend(shard) for shard in whole.fleet.shards]
        self.backend = ShardsBackend(name, whole.address, shards=self._shards)
        self.board: JobBoard = harness.adopt(JobBoard(name, self.backend))

    @property
    def claims(self) -> int:
        return self.calls["claim_next"]

    @property
    def calls(self) -> Counter[str]:
        return sum((shard.calls for shard in self._shards), Counter[str]())

    def post_on(self, number: int, name: str = "resize") -> Job:
        self.backend.loads.choose = lambda: number  # type: ignore[method-assign]
        return self.board.post(name)

    def lane_on(self, number: int) -> str:
        """Return a lane of a shard."""
        place = self.backend.fleet.map.now.place
        return next(lane for lane in map(str, itertools.count()) if place(text_of_lane(lane)) == number)


class Folders:
    """A board of three files, each in a folder that can be taken away."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in "abc":
            (folder / name).mkdir()
        uris = [f"sqlite:///{folder}/{name}/{name}.db" for name in "abc"]
        self.uri = "shards://?" + "&".join(f"uri={quote(uri, safe='')}" for uri in uris)

    def fetch(self) -> JobBoard:
        return jobboard.fetch("jobs", self.uri, patience=0.1)

    def take_away(self, name: str = "c") -> None:
        (self._folder / name).rename(self._folder / "away")

    def bring_back(self, name: str = "c") -> None:
        (self._folder / "away").rename(self._folder / name)
