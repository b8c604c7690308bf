"""What lanes and limits cost: beside jobs with keys, beside plain jobs, and what those pay who have none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from benchmarks.figures import rate
from benchmarks.goals.goal import Goal, Part, Setting, Sides
from benchmarks.goals.sides import telling
from benchmarks.stores import STORES
from jobboard import JobBoard, Posting

_BATCH, _LANES, _RUNNING = 50, 100, 5
_LIVES, _TURNS, _CLAIM = f"post, claim and consume in {_BATCH}s", "jobs of a lane of 1, one by one", "claim_next"
_PLAIN, _KEYS, _LIMITED = "plain jobs", "jobs with keys", "a name whose limit does not bind"
_FULL, _MANY, _ALONE = "beside 100,000 blocked jobs", "beside 10,000 lanes", "beside nothing"


def lanes(store: str, least_turns: str, limited: str) -> Part:
    """Return the goals of lanes on a store.

    :param least_turns: the aim of a lane of 1, in jobs a second. :param limited: that of a limited name.
    """
    return Part(
        "lanes",
        (
            Goal(_LIVES, "/s", "ratio >= 0.8", _KEYS, "jobs with lanes"),
            Goal(_LIVES, "/s", "ratio >= 0.5", _PLAIN, "jobs with lanes"),
            Goal(_LIVES, "/s", limited, _PLAIN, _LIMITED),
            Goal(_TURNS, "/s", least_turns),
            Goal(_CLAIM, "us", "ratio <= 1.2", _ALONE, _FULL),
            Goal(_CLAIM, "us", "ratio <= 1.2", _ALONE, _MANY),
        ),
        _sides_on(store),
    )


def _sides_on(store: str) -> Callable[[Setting], AbstractContextManager[Sides]]:
    @contextmanager
    def sides(setting: Setting) -> Iterator[Sides]:
        with ExitStack() as stack:
            space = stack.enter_context(STORES[store].space())

            def board(name: str) -> JobBoard:
                return stack.enter_context(space.open(name))

            size = max(_BATCH, setting.scaled(3000))
            laned, limited, single = board("lanes"), board("limited"), board("single")
            laned.limits.set(lane="tenant:*", running=_RUNNING)
            limited.limits.set(name="bench", running=1_000_000)
            single.limits.set(lane="one", running=1)
            yield {
                _PLAIN: _lives(board("plain"), size, lambda _: Posting("bench")),
                _KEYS: _lives(board("keys"), size, lambda number: Posting("bench", key=str(number))),
                "jobs with lanes": _lives(laned, size, lambda n: Posting("bench", lane=f"tenant:{n % _LANES}")),
                _LIMITED: _lives(limited, size, lambda _: Posting("bench")),
                "jobboard": telling(_TURNS, lambda: rate(lambda: _take_turns(single, setting.scaled(500)))),
                _ALONE: _claims(board("alone")),
                _FULL: _claims(_crowded(board("full"), setting.scaled(100_000), 1)),
                _MANY: _claims(_crowded(board("many"), 2 * setting.scaled(10_000), setting.scaled(10_000))),
            }

    return sides


def _lives(board: JobBoard, size: int, posting: Callable[[int], Posting]) -> Callable[..., None]:
    def live() -> int:
        for start in range(0, size, _BATCH):
            board.post_many([posting(number) for number in range(start, start + _BATCH)])
        return _drain(board, _BATCH)

    return telling(_LIVES, lambda: rate(live))


def _take_turns(board: JobBoard, size: int) -> int:
    board.post_many([Posting("bench", lane="one") for _ in range(size)])
    return _drain(board, 1)


def _drain(board: JobBoard, batch: int) -> int:
    done = 0
    while jobs := board.claim_next("bench", limit=batch):
        if any(board.consume_many(jobs, "bench")):
            raise AssertionError("a claim was lost in a benchmark")
        done += len(jobs)
    return done


def _crowded(board: JobBoard, size: int, lanes: int) -> JobBoard:
    """Fill a board with jobs of lanes of one slot, whose holders are claimed."""
    board.limits.set(lane="crowd:*", running=1)
    crowd = [Posting("crowd", lane=f"crowd:{number % lanes}") for number in range(size)]
    for start in range(0, size, 1000):
        board.post_many(crowd[start : start + 1000])
    while board.claim_next("bench", ["crowd"], limit=1000):
        pass
    return board


def _claims(board: JobBoard) -> Callable[..., None]:
    def cost() -> float:
        board.post_many([Posting("bench") for _ in range(200)])
        begin = time.perf_counter()
        for _ in range(200):
            board.claim_next("bench", ["bench"])
        return (time.perf_counter() - begin) / 200 * 1e6

    return telling(_CLAIM, cost)
