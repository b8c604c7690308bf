"""Functions that jobs of TaskFlow's conductors name."""

from __future__ import annotations

from typing import Any

from taskflow import task
from taskflow.patterns import linear_flow

# Imported here, not defined here.
from helpers.work import echo as borrowed

__all__ = ["CALLED", "borrowed", "good_flow", "good_flow_that_is_not_named", "reckless"]

CALLED: list[str] = []


class Step(task.Task):  # type: ignore[misc]
    def execute(self) -> None:
        CALLED.append("step")


def good_flow() -> Any:
    CALLED.append("good_flow")
    return linear_flow.Flow("good").add(Step())


def good_flow_that_is_not_named() -> Any:
    CALLED.append("good_flow_that_is_not_named")
    return linear_flow.Flow("other").add(Step())


def reckless(what: str) -> Any:
    """What os.system would be."""
    CALLED.append(f"reckless {what}")
    return good_flow()
