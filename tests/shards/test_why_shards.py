"""``why`` of a job whose shard has no room for its name: who has the slots, where, and what frees one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from jobboard import Entity, Job, JobBoard, fetch
from jobboard.backends.address import Address
from jobboard.backends.loading import backend_at
from jobboard.backends.shards import ShardsBackend, slots
from jobboard.backends.shards.placement import new_uuid
from jobboard.cli.app import run
from jobboard.operate.why import why
from jobboard.operate.why_limited import MAX_HOLDERS
from jobboard.testing.faults import LossyBackend

NAME = "resize"


@pytest.fixture
def uris(tmp_path: Path) -> list[str]:
    return [f"sqlite:///{tmp_path}/shard-{number}.db" for number in range(3)]


@pytest.fixture
def board(uris: list[str]) -> Iterator[JobBoard]:
    with fetch("photos", "shards://", uris=uris) as board:
        board.register_entity(Entity("conductor", "mill", {"names": [NAME], "running": 0, "concurrency": 2}))
        yield board


def post(board: JobBoard, number: int) -> Job:
    return board.post(NAME, uuid=new_uuid(number))


def told(board: JobBoard, job: Job) -> dict[str, str]:
    return {reason.kind: reason.text for reason in why(board, board.get(job.uuid))}


def test_the_only_slot_is_on_another_shard(board: JobBoard, uris: list[str]) -> None:
    board.limits.set(name=NAME, running=1)
    running = post(board, 0)
    board.claim(running, "alice")
    waiting = [post(board, number) for number in (0, 1, 2)]
    for job, number in zip(waiting[1:], (1, 2), strict=True):
        reasons = told(board, job)
        assert "1 of 1 claims" in reasons["name_full"]
        text = reasons["name_slots"]
        assert text.startswith(f"It is on shard {number}, which has 0 of 1 slots of its name. Shard 0 has 1: ")
        assert f"job {running.uuid} (resize) runs since" in text
        assert "(alice). Shards take turns: one is free once such a job has ended." in text
        assert "next" not in reasons
    assert told(board, waiting[0])["name_slots"].startswith("It is on shard 0, which has 1 of 1 slots")
    # What it says is true.
    command = shlex.split(told(board, waiting[2])["name_slots"].rpartition(": ")[2])
    uri = "shards://?" + "&".join(f"uri={quote(uri, safe='')}" for uri in uris)
    assert run(["--board", uri, "--name", "photos", *command[1:]]) == 0
    assert board.get(running.uuid).record.cancel_asked
    board.trash(running, "alice")
    assert len(board.claim_next("bob", [NAME], 3)) == 1


def test_each_shard_that_has_slots_is_named(board: JobBoard) -> None:
    board.limits.set(name=NAME, running=2)
    running = [post(board, number) for number in (0, 2)]
    for job in running:
        board.claim(job, "alice")
    text = told(board, post(board, 1))["name_slots"]
    assert text.startswith("It is on shard 1, which has 0 of 2 slots of its name. Shard 0 has 1: ")
    assert f"Shard 2 has 1: job {running[1].uuid} (resize) runs since" in text
    board.consume(running[0], "alice")
    text = told(board, post(board, 1))["name_slots"]
    assert "Shard 0 has 1, and runs no such job." in text
    assert text.endswith("The conductors soon move a free one to where jobs wait.")


def test_a_slot_that_no_shard_has(board: JobBoard) -> None:
    board.limits.set(name=NAME, running=2)
    for number in range(3):
        reasons = told(board, post(board, number))
        assert "name_full" not in reasons
        assert reasons["name_slots"] == (
            f"It is on shard {number}, which has 0 of 2 slots of its name. Free: 2. "
            "The conductors soon move a free one to where jobs wait."
        )


def test_a_slot_that_leaves_once_its_job_ends_is_still_there(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "TURN_OF_SHARD", 0.0)
    board.limits.set(name=NAME, running=1)
    running = post(board, 0)
    board.claim(running, "alice")
    waiting = [post(board, number) for number in range(3)]
    assert board.claim_next("bob", [NAME], 3) == []
    for job, own in zip(waiting, (1, 0, 0), strict=True):
        text = told(board, job)["name_slots"]
        assert f"which has {own} of 1 slots of its name. Shard 0 has 1: job {running.uuid}" in text
        assert text.endswith(
            f"Shards take turns: one is free once such a job has ended. To end one: jobboard cancel {running.uuid}"
        )


def test_a_share_of_a_divided_limit_that_is_used_up(board: JobBoard) -> None:
    board.limits.set(name=NAME, running=4)
    running = post(board, 1)
    board.claim(running, "alice")
    text = told(board, post(board, 1))["name_slots"]
    assert text.startswith(f"It is on shard 1, which has 1 of 4 slots of its name. Shard 1 has 1: job {running.uuid}")
    assert "Other shards have 3. The limit is divided among the shards: one is free once such a job has ended." in text
    for number in (0, 2):
        assert "name_slots" not in told(board, post(board, number))


@pytest.mark.parametrize("limit", [None, 0])
def test_without_slots_nothing_is_said_of_them(board: JobBoard, limit: int | None) -> None:
    if limit is not None:
        board.limits.set(name=NAME, running=limit)
    for number in range(3):
        assert ("name_full" in told(board, post(board, number))) is (limit == 0)
        assert "name_slots" not in told(board, post(board, number))


def test_what_is_delayed_needs_no_slot_yet(board: JobBoard) -> None:
    board.limits.set(name=NAME, running=1)
    assert "name_slots" not in told(board, board.post(NAME, delay=60))


@pytest.mark.parametrize("count", [8, 24])
def test_many_slots_cost_few_requests(count: int) -> None:
    """As many for eight shards as for 24, for whatever is not asked of all shards anyhow."""
    shards = [LossyBackend(backend_at("photos", f"memory://why-{count}-{number}")) for number in range(count)]
    backend = ShardsBackend("photos", Address("shards"), shards=shards)
    with JobBoard("photos", backend) as board:
        board.limits.set(name=NAME, running=count - 1)
        for number in range(count - 1):
            board.claim(post(board, number), "alice")
        waiting = post(board, count - 1)
        before = sum(sum(shard.calls.values()) for shard in shards)
        shares = backend.name_shares(waiting.uuid, NAME, MAX_HOLDERS)
        assert sum(sum(shard.calls.values()) for shard in shards) - before <= 16
        assert [share.shard for share in shares] == [count - 1, 0, 1, 2, 3]
        assert [len(share.holders) for share in shares] == [0, 1, 1, 1, 1]
