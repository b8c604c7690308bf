"""The steps of :class:`~jobboard.testing.machine.BoardMachine` that set limits, and what they must leave behind."""

from __future__ import annotations

import math

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jobboard.board import JobBoard
from jobboard.states import JobState
from jobboard.testing.harness import Harness
from jobboard.testing.machine_values import LANES, NAMES, clients
from jobboard.testing.model import Model, ModelLimit
from jobboard.types import LaneOrder

#: Each lane, and each prefix: of one lane, so that the order in which lanes are looked at does not show.
PATTERNS = [*LANES, "tenant:*", "größe/{a} 100%:x:*"]

patterns = st.sampled_from(PATTERNS)


class LimitSteps(RuleBasedStateMachine):
    """Operators who set limits of lanes and of names, and pause lanes."""

    boards: list[JobBoard]
    harness: Harness
    model: Model

    def _has_lanes(self) -> bool:
        return self.harness.capabilities.ties

    def _lane(self, lane: str | None) -> str | None:
        return lane if self._has_lanes() else None

    @precondition(_has_lanes)
    @rule(
        client=clients,
        pattern=patterns,
        running=st.sampled_from([None, 0, 1, 1, 2, 2, 3]),
        order=st.sampled_from(["free", "strict"]),
    )
    def limit_a_lane(self, client: int, pattern: str, running: int | None, order: LaneOrder) -> None:
        if running is None and order == "free":
            # A pause alone is no limit.
            assert self.boards[client].limits.remove(lane=pattern) == (pattern in self.model.limits)
            self.model.limits.pop(pattern, None)
        else:
            self.boards[client].limits.set(lane=pattern, running=running, order=order)
            self.model.limits[pattern] = ModelLimit(math.inf if running is None else running, order == "strict")

    @precondition(_has_lanes)
    @rule(client=clients, pattern=patterns)
    def pause_or_resume_a_lane(self, client: int, pattern: str) -> None:
        """Never more than one at a time."""
        if self.model.paused_lanes:
            paused = self.model.paused_lanes.pop()
            self.boards[client].resume(lane=paused)
        else:
            self.boards[client].pause(lane=pattern)
            self.model.paused_lanes.add(pattern)

    @precondition(_has_lanes)
    @rule(client=clients, name=st.sampled_from(NAMES), running=st.sampled_from([None, 0, 1, 1, 2]))
    def limit_a_name(self, client: int, name: str, running: int | None) -> None:
        if running is None:
            assert self.boards[client].limits.remove(name=name) == (name in self.model.limits_of_names)
            self.model.limits_of_names.pop(name, None)
        else:
            self.boards[client].limits.set(name=name, running=running)
            self.model.limits_of_names[name] = running

    @invariant()
    def lanes_are_as_the_model_says(self) -> None:
        if not self._has_lanes():
            return
        self.model.follow_up()
        for lane in LANES:
            stats = self.boards[0].limits.lane(lane)
            claimed, claimable, blocked = (
                len(self.model.of_lane(lane, state))
                for state in (JobState.CLAIMED, JobState.UNCLAIMED, JobState.BLOCKED)
            )
            assert (stats.running, stats.claimable, stats.blocked) == (claimed, claimable, blocked)
