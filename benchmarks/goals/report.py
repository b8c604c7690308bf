"""What was reached: a line of JSON for each goal, and a table."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from benchmarks.figures import print_rows, quartiles_of, with_quartiles
from benchmarks.goals.goal import BEFORE, Goal
from benchmarks.peers.report import Results


@dataclass(frozen=True)
class Outcome:
    """A goal, and what was measured for it; nothing if ``fault`` says why."""

    store: str
    goal: Goal
    values: list[float] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    fault: str = ""

    @property
    def ratios(self) -> list[float]:
        """The ratio of each round."""
        return [value / limit for value, limit in zip(self.values, self.limits, strict=False) if limit]

    @property
    def is_met(self) -> bool | None:
        """Whether the medians reach it; None if they were not measured."""
        if self.fault:
            return None
        return self.goal.is_met(_median(self.values), _median(self.ratios) if self.ratios else None)

    @property
    def verdict(self) -> str:
        return {True: "met", False: "MISSED", None: f"not measured: {self.fault}"}[self.is_met]


def outcome_of(store: str, goal: Goal, found: dict[str, Results]) -> Outcome:
    """Return what a part's sides have found about one of its goals."""
    for side in filter(None, (goal.side, goal.beside)):
        if side not in found:
            return Outcome(store, goal, fault="needs --against" if side == BEFORE else f"no {side}")
        if not found[side].values.get(goal.what):
            return Outcome(store, goal, fault=f"{side}: {found[side].fault or 'no figure'}")
    limits = found[goal.beside].values[goal.what] if goal.beside else []
    return Outcome(store, goal, found[goal.side].values[goal.what], limits)


def print_json(outcome: Outcome) -> None:
    goal = outcome.goal
    told = {"store": outcome.store, "what": goal.what, "side": goal.side, "aim": goal.aim, "verdict": outcome.verdict}
    if outcome.values:
        told |= {"value": _median(outcome.values), "unit": goal.unit, "rounds": outcome.values}
    if outcome.limits:
        told |= {"beside": goal.beside, "limit": _median(outcome.limits), "ratio": _median(outcome.ratios)}
        told["rounds beside"] = outcome.limits
    print(json.dumps(told), flush=True)


def print_table(outcomes: list[Outcome]) -> None:
    rows = [("store", "goal", "aim", "measured", "beside", "ratio", "")]
    for outcome in outcomes:
        goal = outcome.goal
        what = goal.what if goal.side == "jobboard" else f"{goal.what}, {goal.side}"
        measured = f"{with_quartiles(outcome.values)} {goal.unit}" if outcome.values else ""
        beside = f"{goal.beside} {with_quartiles(outcome.limits)}" if outcome.limits else goal.beside
        ratio = f"{_median(outcome.ratios):.2f}" if outcome.ratios else ""
        rows.append((outcome.store, what, goal.aim, measured, beside, ratio, outcome.verdict))
    print_rows(rows)


def _median(values: list[float]) -> float:
    return quartiles_of(values)[1]
