"""The state machine catches a store that is wrong about parents: each case plants a fault in memory."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from test_edge_mutants import FAULTS, Plant
from test_state_machine import BOUNDED, MemoryMachine

from jobboard.backends.memory.edges import Edges
from jobboard.errors import JobBoardError

#: The same histories each time, and no search for a shorter one that fails.
QUICK = settings(
    BOUNDED, max_examples=100, derandomize=True, database=None, phases=[Phase.generate], report_multiple_bugs=False
)


def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Edges, "connect", lambda *_: None)


CAUGHT = [
    "open parents do not count", "wait is run", "cancel is wait", "lost parents are only failed",
    "what ended before is open", "results stay behind",
]  # fmt: skip
PLANTS: dict[str, Plant] = {"nobody waits": nobody_waits, **{fault: FAULTS[fault][0] for fault in CAUGHT}}


@pytest.mark.parametrize("fault", PLANTS)
def test_a_store_with_a_fault_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[fault](monkeypatch)
    with pytest.raises((AssertionError, JobBoardError, pytest.fail.Exception)):
        run_state_machine_as_test(MemoryMachine, settings=QUICK)  # type: ignore[no-untyped-call]
