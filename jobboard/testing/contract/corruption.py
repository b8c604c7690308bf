"""Corruption: an entry that can't be decoded is quarantined with its bytes, and harms nobody (promise 11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from jobboard.board import JobBoard
from jobboard.job import Job
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, Case, snapshot, state_of, uuids_of
from jobboard.testing.harness import Harness

Read = Callable[[JobBoard], Iterable[Job]]

READS: dict[str, Read] = {
    "iterjobs": lambda board: board.iterjobs(),
    "iterjobs(only_unclaimed)": lambda board: board.iterjobs(only_unclaimed=True),
    "wait": lambda board: board.wait(5),
    "claim_next": lambda board: [job for _ in range(3) for job in board.claim_next("alice", limit=9, expiry=LONG)],
}


def _bad_between_good(harness: Harness, board: JobBoard) -> tuple[Job, Job, Job]:
    one, bad, three = (board.post("resize", details={"n": n}, key=str(n)) for n in range(3))
    harness.corrupt(board, bad.uuid)
    return one, bad, three


class CorruptionCases(Case):
    @pytest.mark.parametrize("read", READS)
    def test_a_corrupt_entry_between_two_good_ones_is_quarantined(
        self, harness: Harness, board: JobBoard, read: str
    ) -> None:
        one, bad, three = _bad_between_good(harness, board)
        assert uuids_of(READS[read](board)) == [one.uuid, three.uuid]
        [trashed] = board.trashed()
        assert (trashed.uuid, trashed.details, trashed.record.state) == (bad.uuid, None, JobState.TRASHED)
        assert trashed.raw not in {b"", bad.raw}
        assert "decoded" in (trashed.record.reason or "")
        assert board.job_count == 2

    def test_a_claim_of_a_corrupt_entry_is_refused(self, harness: Harness, board: JobBoard) -> None:
        _, bad, _ = _bad_between_good(harness, board)
        with pytest.raises(Exception, match="decoded"):
            board.claim(bad.uuid, "alice")
        assert state_of(board, bad) is JobState.TRASHED
        assert board.find_owner(bad) is None

    def test_a_corrupt_entry_in_the_trash_can_be_seen_and_purged(self, harness: Harness, board: JobBoard) -> None:
        one, bad, three = _bad_between_good(harness, board)
        board.trash(bad, by="an operator", reason="broken")
        [trashed] = board.trashed()
        assert (trashed.uuid, trashed.details) == (bad.uuid, None)
        assert "resize" in repr(trashed)
        board.purge(bad.uuid)
        assert list(board.trashed()) == []
        assert uuids_of(board.iterjobs()) == [one.uuid, three.uuid]

    def test_a_restored_corrupt_entry_is_quarantined_again(self, harness: Harness, board: JobBoard) -> None:
        one, bad, three = _bad_between_good(harness, board)
        assert uuids_of(board.iterjobs()) == [one.uuid, three.uuid]
        board.restore(bad.uuid)
        assert uuids_of(board.iterjobs()) == [one.uuid, three.uuid]
        assert uuids_of(board.trashed()) == [bad.uuid]

    def test_a_corrupt_entry_can_be_looked_at(self, harness: Harness, board: JobBoard) -> None:
        _, bad, _ = _bad_between_good(harness, board)
        seen = board.get(bad.uuid)
        assert (seen.uuid, seen.name, seen.details) == (bad.uuid, "resize", None)
        assert seen.record.attempts == 0

    def test_a_claim_whose_entry_was_corrupted_can_be_ended(self, harness: Harness, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        harness.corrupt(board, job.uuid)
        board.consume(job, "alice", "done")
        assert (state_of(board, job), board.get(job.uuid).result) == (JobState.COMPLETE, "done")

    def test_a_corrupt_entry_leaves_the_others_as_they_were(self, harness: Harness, board: JobBoard) -> None:
        one, _, three = _bad_between_good(harness, board)
        before = snapshot(board, one), snapshot(board, three)
        list(board.iterjobs())
        assert (snapshot(board, one), snapshot(board, three)) == before
        assert board.stats().trashed == 1
        assert [board.find("resize", key).uuid for key in ("0", "2")] == [one.uuid, three.uuid]
