"""What somebody does by hand in the keys of a board on Redis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from servers.redis_servers import RedisServer

from jobboard import Job, JobBoard


class Hand:
    """Somebody who writes into the keys of a board."""

    def __init__(self, server: RedisServer, board: JobBoard) -> None:
        self._client = server.client()
        self._key = f"{{jobboard:{board.name}}}"

    def key(self, kind: str) -> str:
        return f"{self._key}:{kind}"

    def __call__(self, command: str, kind: str, *arguments: object) -> Any:
        return self._client.execute_command(command, self.key(kind), *arguments)

    def names(self, pattern: str) -> list[str]:
        """Return the names of the keys that there are, by a pattern of the server's."""
        found = self._client.scan_iter(self._key.replace("{", r"\{") + ":" + pattern)
        return sorted(key.decode().removeprefix(f"{self._key}:") for key in found)

    def close(self) -> None:
        self._client.close()


def member_of(job: Job) -> str:
    """Return what stands for a job in the orders of its name."""
    return f"{job.sequence:012x}{job.uuid}"


def a_hand() -> Any:
    """Return a fixture: somebody who writes into the keys of the suite's ``board``."""

    @pytest.fixture
    def hand(server: RedisServer, board: JobBoard) -> Iterator[Hand]:
        hand = Hand(server, board)
        yield hand
        hand.close()

    return hand
