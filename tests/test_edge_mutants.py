"""The contract catches a store that is wrong about parents, signals or keys: each case plants a fault in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from test_lane_mutants import run_case

from jobboard.backends import edges, follow_ups, lifecycle, outcomes, waiting
from jobboard.backends.edge_rows import Outcome, SignalOutcome
from jobboard.backends.memory import edges as edges_of_memory
from jobboard.backends.memory import stored_job
from jobboard.backends.memory.posting import Batch
from jobboard.backends.memory.steps import Steps
from jobboard.backends.memory.store import MemoryStore
from jobboard.backends.rows import IfFailed, Verdict
from jobboard.errors import JobBoardError
from jobboard.states import LIVE, JobState
from jobboard.testing import eventually

#: Plants a fault.
Plant = Callable[[pytest.MonkeyPatch], None]


def _settle_with(change: Callable[[Any, Any], tuple[Any, Any]]) -> Plant:
    """Let another row, or other parents, decide what becomes of a child."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        right = edges.settle

        def settle(row: Any, ended: Any, now: float) -> Any:
            row, ended = change(row, ended)
            return right(row, ended, now)

        monkeypatch.setattr(edges_of_memory, "settle", settle)

    return plant


def _as_if(if_failed: IfFailed) -> Callable[[Any, Any], tuple[Any, Any]]:
    def change(row: Any, ended: Any) -> tuple[Any, Any]:
        if row.ties is not None:
            row.ties = replace(row.ties, if_failed=if_failed)
        return row, ended

    return change


def open_parents_do_not_count() -> Plant:
    return _settle_with(lambda row, ended: (row, replace(ended, open=None)))


def lost_parents_are_only_failed() -> Plant:
    return _settle_with(lambda row, ended: (row, replace(ended, gone=None, failed=ended.failed or ended.gone)))


def a_dropped_graph_is_sealed() -> Plant:
    return _settle_with(lambda row, ended: (row, replace(ended, is_dropped=False)))


def only_the_first_part_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    right = edges_of_memory.Edges.resolve

    def resolve(self: Any, parent: str, now: float) -> int:
        count = right(self, parent, now)
        if parent in self.marks:
            self._unmark(parent)
        return count

    monkeypatch.setattr(edges_of_memory.Edges, "resolve", resolve)


def a_restore_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    right = edges_of_memory.Edges.mark

    def mark(self: Any, step: Any, due: float) -> None:
        if step.outcome is not Outcome.OPEN:
            right(self, step, due)

    monkeypatch.setattr(edges_of_memory.Edges, "mark", mark)


def a_restore_is_told_only_to_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges_of_memory, "may_wait", lambda row: row.ties is not None and row.ties.has_parents)


def who_was_claimed_waits_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "can_wait_again", lambda row: row.ties.if_failed is IfFailed.RUN and row.state in LIVE)


def what_ended_before_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    right = outcomes.edge_to
    monkeypatch.setattr(
        edges_of_memory, "edge_to", lambda child, parent: replace(right(child, parent), outcome=Outcome.OPEN)
    )


def results_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    right = edges_of_memory.Edges._put
    monkeypatch.setattr(edges_of_memory.Edges, "_put", lambda self, edge: right(self, replace(edge, result=None)))


def no_delayed_job_is_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobboard.backends.edges._WAITING", (JobState.BLOCKED, JobState.TRASHED))


def edges_outlive_their_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges_of_memory.Edges, "forget", lambda self, child: None)


def a_signal_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    right = waiting.wait_for_signal
    monkeypatch.setattr(
        waiting, "wait_for_signal", lambda row, name, now, limit, until, _: right(row, name, now, limit, until, False)
    )


def the_last_signal_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Steps.signal

    def signal(self: Any, uuid: str, name: str, value: bytes, by: str | None = None) -> SignalOutcome:
        self._store.signals.get(uuid, {}).pop(name, None)
        return right(self, uuid, name, value, by)

    monkeypatch.setattr(Steps, "signal", signal)


def any_signal_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    right = waiting.signal

    def signal(row: Any, name: str, by: str | None, now: float) -> Any:
        waits = row is not None and row.ties is not None and row.ties.signal is not None
        return right(row, row.ties.signal if waits else name, by, now)

    monkeypatch.setattr(waiting, "signal", signal)


def a_late_owner_saves_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobboard.backends.memory.steps.lifecycle", _NoFence)


class _NoFence:
    holds = staticmethod(lambda row, fence: row is not None)
    save_step = staticmethod(lambda row, fence: Verdict.LOST if row is None else Verdict.DONE)


def steps_end_with_their_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    right = lifecycle.abandon

    def abandon(row: Any, end: Any, *arguments: Any, **options: Any) -> Any:
        change = right(row, end, *arguments, **options)
        if change.answer is Verdict.DONE:
            _Stores.last.steps.clear()
        return change

    right_init = MemoryStore.clear

    def clear(self: Any) -> None:
        right_init(self)
        _Stores.last = self

    monkeypatch.setattr(MemoryStore, "clear", clear)
    monkeypatch.setattr(lifecycle, "abandon", abandon)


class _Stores:
    last: Any = None


def refused_follow_ups_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobboard.backends.memory.jobs.Jobs._refused", lambda self, posts, row, now: None)


def follow_ups_are_posted_before_their_claim_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    right = lifecycle.consume

    def consume(row: Any, end: Any, now: float) -> Any:
        change = right(row, end, now)
        if not change.told and row is not None:
            Batch(_Stores.last, end.posts, now).post()
        return change

    steps_end_with_their_claim(monkeypatch)
    monkeypatch.setattr(lifecycle, "consume", consume)


def each_end_has_the_same_follow_up(monkeypatch: pytest.MonkeyPatch) -> None:
    right = follow_ups.uuid_of
    monkeypatch.setattr(follow_ups, "uuid_of", lambda job, token, name: right(job, 0, name))


def a_window_ends_with_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batch, "_keep_key", lambda self, row, new: None)


def cancelled_jobs_keep_their_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    def keeps_key(self: Any, row: Any, now: float) -> float:
        return float(self.windows.get((row.name, row.key or ""), (None, now))[1] - now)

    monkeypatch.setattr(MemoryStore, "_keeps_key", keeps_key)


def a_replacement_moves_on_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    right = lifecycle.replace

    def replace_content(row: Any, new: Any, now: float, slack: float = 0.0) -> Any:
        if row.ties is not None:
            row.ties = replace(row.ties, latest=None)
        return right(row, new, now, slack)

    monkeypatch.setattr(lifecycle, "replace", replace_content)


def nobody_misses_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    right = stored_job.draft

    def draft(new: Any, now: float) -> Any:
        ties = new.ties and replace(new.ties, start_by=None)
        return right(replace(new, ties=ties), now)

    monkeypatch.setattr("jobboard.backends.memory.posting.draft", draft)


FAULTS: dict[str, tuple[Plant, str, dict[str, Any]]] = {
    "open parents do not count": (open_parents_do_not_count(), "a_child_waits_for_the_last_of_its_parents", {}),
    "wait is run": (_settle_with(_as_if(IfFailed.RUN)), "one_failed_parent_of_several_decides_at_once", {}),
    "wait is cancel": (
        _settle_with(_as_if(IfFailed.CANCEL)), "children_go_on_once_their_parent_is_restored_and_consumed", {},
    ),
    "cancel is wait": (_settle_with(_as_if(IfFailed.WAIT)), "a_cancel_goes_down_three_levels", {}),
    "lost parents are only failed": (
        lost_parents_are_only_failed(), "a_parent_that_was_cancelled_before", {"if_failed": "wait"},
    ),
    "a dropped graph is sealed": (a_dropped_graph_is_sealed(), "a_graph_that_is_given_up_leaves_nothing", {}),
    "only the first part is resolved": (
        only_the_first_part_is_resolved, "one_job_with_many_children", {"count": 120},
    ),
    "a restore is not told": (
        a_restore_is_not_told, "children_go_on_once_their_parent_is_restored_and_consumed", {},
    ),
    "a restore is told only to who waits": (
        a_restore_is_told_only_to_who_waits, "what_nobody_has_claimed_waits_again", {},
    ),
    "who was claimed waits again": (
        who_was_claimed_waits_again, "one_that_was_claimed_does_not_wait_again", {},
    ),
    "what ended before is open": (what_ended_before_is_open, "what_ended_before_counts_at_once", {}),
    "results stay behind": (
        results_stay_behind, "results_reach_a_child_whatever_the_retention_of_its_parents", {"retention": 0.0},
    ),
    "no delayed job is linked": (no_delayed_job_is_linked, "a_delayed_job_takes_more_parents", {}),
    "edges outlive their child": (edges_outlive_their_child, "a_purged_child_leaves_no_edges", {}),
    "a signal is forgotten": (
        a_signal_is_forgotten, "a_signal_that_is_there_already_ends_the_wait_at_once", {},
    ),
    "the last signal stays": (the_last_signal_stays, "a_signal_that_is_sent_twice_is_one", {}),
    "any signal wakes": (any_signal_wakes, "another_signal_is_kept_and_wakes_nobody", {}),
    "a late owner saves steps": (a_late_owner_saves_steps, "a_late_owner_writes_no_step", {}),
    "steps end with their claim": (
        steps_end_with_their_claim, "steps_outlive_every_end_but_that_of_the_job", {},
    ),
    "refused follow-ups are left out": (
        refused_follow_ups_are_left_out, "a_trashing_posts_what_follows", {},
    ),
    "a late owner posts": (
        follow_ups_are_posted_before_their_claim_is_checked, "a_late_owner_posts_nothing", {},
    ),
    "each end has the same follow-up": (
        each_end_has_the_same_follow_up, "each_end_after_a_restore_has_a_follow_up_of_its_own", {},
    ),
    "a window ends with its job": (
        a_window_ends_with_its_job, "a_key_stays_taken_after_the_end_of_its_job", {"retention": 0.0},
    ),
    "cancelled jobs keep their windows": (
        cancelled_jobs_keep_their_windows, "a_cancelled_or_purged_job_keeps_no_key", {},
    ),
    "a replacement moves on for ever": (
        a_replacement_moves_on_for_ever, "replacements_move_a_job_on_until_its_latest_moment", {},
    ),
    "nobody misses the start": (nobody_misses_the_start, "a_moment_that_is_over_at_the_post", {}),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_store_with_a_fault_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, name, parameters = FAULTS[fault]
    run_case(name, parameters)
    plant(monkeypatch)
    # A wait for what never comes need not be long.
    monkeypatch.setattr(eventually, "__defaults__", (2.0, 0.01))
    with pytest.raises((AssertionError, JobBoardError, pytest.fail.Exception)):
        run_case(name, parameters)
