"""The contract catches a store that counts lanes and limits wrongly: each case plants one fault in the memory store."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from helpers.embedded import MemoryHarness

from jobboard.backends.lanes import LanePlan, LaneView
from jobboard.backends.limits import LaneLimit
from jobboard.backends.limits import Rules as RightRules
from jobboard.backends.memory import lanes as lanes_of_memory
from jobboard.backends.memory import limits as limits_of_memory
from jobboard.testing import Contract, eventually

Plan = LanePlan[Any]
#: Plans a look wrongly, given the right plan.
Mutant = Callable[[LaneView[Any], LaneLimit, float, Callable[..., Plan]], Plan]


def one_too_many(view: LaneView[Any], limit: LaneLimit, now: float, plan: Callable[..., Plan]) -> Plan:
    return plan(view, replace(limit, running=None if limit.running is None else limit.running + 1), now)


def only_what_is_claimed_counts(view: LaneView[Any], limit: LaneLimit, now: float, plan: Callable[..., Plan]) -> Plan:
    return plan(replace(view, claimable=0), limit, now)


def what_can_be_claimed_stays(view: LaneView[Any], limit: LaneLimit, now: float, plan: Callable[..., Plan]) -> Plan:
    steps = plan(view, limit, now)
    return steps if steps.admit else replace(steps, withdraw=[])


def the_first_is_withdrawn(view: LaneView[Any], limit: LaneLimit, now: float, plan: Callable[..., Plan]) -> Plan:
    return plan(replace(view, last=view.last[::-1]), limit, now)


def nobody_gives_way(view: LaneView[Any], limit: LaneLimit, now: float, plan: Callable[..., Plan]) -> Plan:
    steps = plan(view, limit, now)
    return replace(steps, withdraw=[], admit=[]) if steps.withdraw and steps.admit else steps


def the_last_is_admitted(view: LaneView[Any], limit: LaneLimit, now: float, plan: Callable[..., Plan]) -> Plan:
    return plan(replace(view, blocked=view.blocked[::-1]), limit, now)


def one_admission_too_few(view: LaneView[Any], limit: LaneLimit, now: float, plan: Callable[..., Plan]) -> Plan:
    steps = plan(view, limit, now)
    return steps if len(steps.admit) < 2 else replace(steps, admit=steps.admit[:-1])


def no_rate(view: LaneView[Any], limit: LaneLimit, now: float, plan: Callable[..., Plan]) -> Plan:
    return plan(view, replace(limit, rate=None), now)


def a_rate_forgets_its_starts(view: LaneView[Any], limit: LaneLimit, now: float, plan: Callable[..., Plan]) -> Plan:
    return plan(replace(view, next_at=0.0), limit, now)


def a_rate_saves_up(view: LaneView[Any], limit: LaneLimit, now: float, plan: Callable[..., Plan]) -> Plan:
    """Also what can be claimed is no reason to admit nothing."""
    return plan(view if limit.rate is None else replace(view, claimable=0), limit, now)


def a_rate_forgets_what_it_offered(
    view: LaneView[Any], limit: LaneLimit, now: float, plan: Callable[..., Plan]
) -> Plan:
    return plan(replace(view, offered=0), limit, now)


def a_look_moves_only_some(view: LaneView[Any], limit: LaneLimit, now: float, plan: Callable[..., Plan]) -> Plan:
    steps = plan(view, limit, now)
    return replace(steps, look_at=None) if limit.rate is None else steps


MUTANTS: dict[Mutant, tuple[str, dict[str, Any]]] = {
    one_too_many: ("a_lane_has_as_many_slots_as_its_limit", {"running": 1}),
    only_what_is_claimed_counts: ("a_lane_has_as_many_slots_as_its_limit", {"running": 3}),
    what_can_be_claimed_stays: ("a_limit_withdraws_what_can_be_claimed_the_last_first", {}),
    the_first_is_withdrawn: ("a_limit_withdraws_what_can_be_claimed_the_last_first", {}),
    nobody_gives_way: ("a_better_priority_takes_the_slot_of_what_is_not_claimed", {"running": 1}),
    the_last_is_admitted: ("jobs_are_admitted_by_priority_and_then_as_they_became_due", {}),
    one_admission_too_few: ("a_limit_that_is_removed_and_set_again_counts_what_runs", {}),
    no_rate: ("no_more_than_a_burst_starts_at_once", {"burst": 1}),
    a_rate_forgets_its_starts: ("no_more_than_a_burst_starts_at_once", {"burst": 1}),
    a_rate_saves_up: ("idle_time_saves_up_no_more_than_a_burst", {}),
    a_rate_forgets_what_it_offered: ("a_burst_that_nobody_claimed_for_long_is_not_followed_by_another_one", {}),
    a_look_moves_only_some: ("more_jobs_are_withdrawn_and_admitted_than_one_look_moves", {}),
}


def run_case(name: str, parameters: dict[str, Any]) -> None:
    """Run a case of the contract on the memory store, and the audit at its end."""
    case = getattr(Contract(), f"test_{name}")
    with MemoryHarness() as harness:
        board, lossy = harness.lossy_board()
        fixtures = {"harness": harness, "board": board, "lossy": lossy, **parameters}
        if "other" in inspect.signature(case).parameters:
            fixtures["other"] = harness.board(board.name)
        case(**{each: fixtures[each] for each in inspect.signature(case).parameters})
        assert board.audit() == []


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_lane_that_is_planned_wrongly_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    name, parameters = MUTANTS[mutant]
    run_case(name, parameters)
    right = lanes_of_memory.plan
    monkeypatch.setattr(lanes_of_memory, "plan", lambda view, limit, now: mutant(view, limit, now, right))
    # A wait for what never comes need not be long.
    monkeypatch.setattr(eventually, "__defaults__", (1.0, 0.01))
    with pytest.raises(AssertionError):
        run_case(name, parameters)


class NoPrefixes(RightRules):
    def of_lane(self, lane: str) -> LaneLimit:
        return LaneLimit() if f"{lane.rpartition(':')[0]}:*" in self._lanes else super().of_lane(lane)


class ThePrefixFirst(RightRules):
    def of_lane(self, lane: str) -> LaneLimit:
        return super().of_lane(f"{lane.rpartition(':')[0]}:another") if ":" in lane else super().of_lane(lane)


class EveryLaneIsStrict(RightRules):
    def of_lane(self, lane: str) -> LaneLimit:
        return replace(super().of_lane(lane), is_strict=True)


class OneMoreOfAName(RightRules):
    def __init__(self, rows: Sequence[Any]) -> None:
        super().__init__(rows)
        self.names = {name: most + 1 for name, most in self.names.items()}


class NoLimitsOfNames(RightRules):
    def __init__(self, rows: Sequence[Any]) -> None:
        super().__init__(rows)
        self.names = dict.fromkeys(self.names, math.inf)  # type: ignore[arg-type]


RULES: dict[type[RightRules], str] = {
    EveryLaneIsStrict: "another_order_counts_the_retries_anew",
    NoPrefixes: "a_prefix_is_a_limit_of_each_of_its_lanes",
    ThePrefixFirst: "the_rule_of_a_lane_goes_before_that_of_its_prefix",
    OneMoreOfAName: "no_more_of_a_name_are_claimed_than_its_limit",
    NoLimitsOfNames: "a_lowered_limit_of_a_name_stops_nobody",
}


@pytest.mark.parametrize("rules", RULES)
def test_a_rule_that_is_read_wrongly_is_caught(rules: type[RightRules], monkeypatch: pytest.MonkeyPatch) -> None:
    run_case(RULES[rules], {})
    monkeypatch.setattr(limits_of_memory, "Rules", rules)
    with pytest.raises(AssertionError):
        run_case(RULES[rules], {})
