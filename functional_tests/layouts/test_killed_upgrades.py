"""An upgrade on Redis that is killed after any step: the next one loses nothing, and does nothing twice."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import redis

from jobboard import BoardUnavailable, JobState, backend, fetch
from jobboard.backends.layout import STORED_LAYOUT, UPGRADING
from jobboard.backends.redis.client import RedisClient
from layouts.dumps import NAME, file_of, running
from layouts.test_killed_migrations import is_killed, kill_this_process
from layouts.test_layouts import STATES, states_on

ROOT = f"{{jobboard:{NAME}}}:"
#: More than a step of the upgrade takes.
MORE = 250


def new_uuids(first: int) -> list[bytes]:
    return [str(UUID(int=first + number)).encode() for number in range(MORE)]


def job_named(client: redis.Redis, index: str) -> bytes:
    """Return the uuid of the only job in an index."""
    [uuid] = client.zrange(ROOT + index, 0, -1)
    return bytes(uuid)


def multiply(client: redis.Redis) -> None:
    """Copy a job that is ready, and one that is complete, under other uuids, as layout 1 has them; and add names."""
    low, consumed = job_named(client, "ready:low"), job_named(client, "complete:consumed")
    record, posting = client.hget(f"{ROOT}records", low), client.hget(f"{ROOT}listings", low)
    place = client.zscore(f"{ROOT}ready:low", low)
    uuids = new_uuids(1)
    client.hset(f"{ROOT}records", mapping={uuid: record.replace(low, uuid) for uuid in uuids})
    client.hset(f"{ROOT}listings", mapping=dict.fromkeys(uuids, posting))
    client.zadd(f"{ROOT}ready:low", dict.fromkeys(uuids, place))
    client.zadd(f"{ROOT}names", {b"unused " + uuid: 0 for uuid in uuids})
    done, place = client.get(f"{ROOT}done:{consumed.decode()}"), client.zscore(f"{ROOT}complete:consumed", consumed)
    until = client.zscore(f"{ROOT}retained", b"consumed\n" + consumed)
    others = new_uuids(MORE + 1)
    client.mset({f"{ROOT}done:{uuid.decode()}": done.replace(consumed, uuid) for uuid in others})
    client.zadd(f"{ROOT}complete:consumed", dict.fromkeys(others, place))
    client.zadd(f"{ROOT}retained", {b"consumed\n" + uuid: until + number for number, uuid in enumerate(others)})


READERS: dict[bytes, Any] = {
    b"string": lambda client, key: client.get(key),
    b"hash": lambda client, key: client.hgetall(key),
    b"set": lambda client, key: client.smembers(key),
    b"zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
}


def content_of(client: redis.Redis) -> dict[bytes, Any]:
    return {key: READERS[client.type(key)](client, key) for key in client.keys("*")}


def kill_after_step(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the process when a script of this number has run; the first script is the first step."""
    counted, change = itertools.count(1), RedisClient.change

    def watched(self: RedisClient, *arguments: Any) -> Any:
        answer = change(self, *arguments)
        if next(counted) == number:
            kill_this_process()
        return answer

    monkeypatch.setattr(RedisClient, "change", watched)


def test_an_upgrade_that_is_killed_after_any_step_ends_with_the_same_board(tmp_path: Path) -> None:
    with running("redis", tmp_path) as store, redis.Redis.from_url(store.uri) as client:
        expected: dict[bytes, Any] = {}
        for number in itertools.count(0):
            store.load(file_of("redis", 1).read_text())
            multiply(client)
            if number == 0:
                fetch(NAME, store.uri).migrate()
                expected = content_of(client)
                continue
            with pytest.MonkeyPatch.context() as monkeypatch:
                kill_after_step(number, monkeypatch)
                if not is_killed(store):
                    break
            if client.get(f"{ROOT}layout") != STORED_LAYOUT:
                with pytest.raises(BoardUnavailable, match=rf"layout {UPGRADING.decode()}, .*`jobboard upgrade`"):
                    fetch(NAME, store.uri).connect()
            fetch(NAME, store.uri).migrate()
            assert content_of(client) == expected
        # Three parts of the board, each of which takes two steps.
        assert number - 1 >= 6
        with backend(NAME, store.uri) as board:
            assert states_on(board) == STATES
            assert board.audit() == []
            jobs = list(board.iterjobs(states={JobState.UNCLAIMED, JobState.COMPLETE}))
            assert len({job.uuid for job in jobs}) == len(jobs) == 2 * (MORE + 1) + 4
            assert len(board.claim_next("carol", limit=2 * MORE)) == MORE + 4
