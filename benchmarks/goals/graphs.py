"""What dependencies cost: how fast they are added, and what ends of parents take beside those of plain jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from benchmarks.figures import rate
from benchmarks.goals.goal import Goal, Part, Setting, Sides
from benchmarks.goals.sides import telling
from benchmarks.peers.report import Results
from benchmarks.stores import STORES
from jobboard import JobBoard, Posting

_BATCH = 100
_ADD, _DRAIN = "add jobs and one that waits for all", f"claim and consume in {_BATCH}s"
_PLAIN, _PARENTS = "plain jobs", "the parents of a job"


def graphs(store: str) -> Part:
    """Return the goals of dependencies on a store."""
    return Part(
        "graphs",
        (Goal(_ADD, "/s", ">= 20,000", side=_PARENTS), Goal(_DRAIN, "/s", "ratio >= 0.9", _PLAIN, _PARENTS)),
        _sides_on(store),
    )


def _sides_on(store: str) -> Callable[[Setting], AbstractContextManager[Sides]]:
    @contextmanager
    def sides(setting: Setting) -> Iterator[Sides]:
        with ExitStack() as stack:
            space = stack.enter_context(STORES[store].space())
            size = max(_BATCH, setting.scaled(10_000))
            plain, parents = (stack.enter_context(space.open(name)) for name in ("plain", "parents"))

            def fan_in(results: Results) -> None:
                telling(_ADD, lambda: rate(lambda: _add(parents, size)))(results)
                telling(_DRAIN, lambda: rate(lambda: _drain(parents)))(results)
                _drain(parents)

            def beside(results: Results) -> None:
                for start in range(0, size, 1000):
                    plain.post_many([Posting("bench") for _ in range(start, min(size, start + 1000))])
                telling(_DRAIN, lambda: rate(lambda: _drain(plain)))(results)

            yield {_PLAIN: beside, _PARENTS: fan_in}

    return sides


def _add(board: JobBoard, size: int) -> int:
    parents = [Posting("bench") for _ in range(size)]
    board.post_many([*parents, Posting("report", after=parents)])
    return size


def _drain(board: JobBoard) -> int:
    done = 0
    while jobs := board.claim_next("bench", limit=_BATCH):
        if any(board.consume_many(jobs, "bench")):
            raise AssertionError("a claim was lost in a benchmark")
        done += len(jobs)
    return done
