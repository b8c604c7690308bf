"""Pages of a shard: who needs all of them misses none, and who does not reads few."""

from __future__ import annotations

import pytest

from jobboard import BoardUnavailable, JobBoard, Posting
from jobboard.backends.address import Address
from jobboard.backends.loading import backend_at
from jobboard.backends.rows import Page
from jobboard.backends.shards import ShardsBackend, leftovers, pages
from jobboard.backends.shards.pages import pages_of
from jobboard.logbook import LogBook
from jobboard.testing.faults import LossyBackend


def test_who_reads_all_pages_is_told_if_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_PAGES", 3)
    assert len(list(pages_of(lambda cursor: Page([], None if cursor == 2 else (cursor or 0) + 1)))) == 3
    read = pages_of(lambda cursor: Page([], (cursor or 0) + 1))
    assert [next(read).cursor for _ in range(3)] == [1, 2, 3]
    with pytest.raises(BoardUnavailable, match="more than 3 pages"):
        next(read)


def test_a_shard_is_not_taken_for_empty_because_it_has_too_many_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = backend_at("photos", "memory://pages")
    with JobBoard("photos", shard) as board:
        for number in range(5):
            board.save_book(LogBook(f"book {number}"))
        assert [words.split()[0] for words in leftovers.leftovers(shard)] == ["5"]
        monkeypatch.setattr(leftovers, "_PAGE", 1)
        monkeypatch.setattr(pages, "MAX_PAGES", 3)
        with pytest.raises(BoardUnavailable, match="more than 3 pages"):
            leftovers.leftovers(shard)


def test_a_turn_reads_few_pages_of_what_waits_for_parents() -> None:
    """And gives its shard no slot for that."""
    shards = [LossyBackend(backend_at("photos", f"memory://parents-{number}")) for number in range(3)]
    backend = ShardsBackend("photos", Address("shards"), shards=shards)
    with JobBoard("photos", backend) as board:
        board.limits.set(name="crop", running=1)
        parent = board.post("resize")
        board.post_many([Posting("crop", after=[parent]) for _ in range(250)])
        before = sum(shard.calls["page"] for shard in shards)
        assert backend.turns.take("crop") == []
        assert sum(shard.calls["page"] for shard in shards) - before <= 8
        crop = board.post("crop")
        assert board.claim_next("alice", ["crop"], 9) == [crop]
