"""The history of a board: one client looks for all, and what it saw outlives it."""

from __future__ import annotations

from jobboard.board import JobBoard
from jobboard.operate.sampling import Sampler
from jobboard.testing.contract.case import Case


class SamplingCases(Case):
    def test_one_client_looks_for_all_and_another_goes_on_where_it_stopped(
        self, board: JobBoard, other: JobBoard
    ) -> None:
        board.post("mail")
        first, second = Sampler(board), Sampler(other)
        first.look()
        second.look()
        assert (first.is_holder, second.is_holder) == (True, False)
        assert (first.looked_itself, second.looked_itself) == (True, False)
        assert second.newest == first.newest
        assert second.newest is not None
        assert second.newest["totals"]["unclaimed"] == 1
        saved = first.minutes(0)
        first.stop()
        second.look()
        assert second.is_holder
        assert second.minutes(0)[0].at == saved[0].at
        assert second.minutes(0)[0].total.waiting == 1
        second.stop()
