"""What a benchmark reports: a table for people, and one JSON line per figure."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figure:
    """One measured number, beside the number it is compared with in the same run."""

    store: str
    what: str
    value: float
    unit: str
    beside: str = ""
    limit: float | None = None
    ratio: float | None = None
    goal: str = ""


def compare(ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> tuple[float, float, float]:
    """Measure two rates in turn; the medians, and the median of the ratios pair by pair.

    In turn, because these rates drift together when a machine's speed does.
    """
    pairs = [(ours(), theirs()) for _ in range(rounds)]
    ratio = statistics.median(mine / other for mine, other in pairs)
    return statistics.median(mine for mine, _ in pairs), statistics.median(other for _, other in pairs), ratio


def rate(work: Callable[[], int]) -> float:
    """Return how many a second; ``work`` returns how many it did."""
    begin = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - begin)


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def print_json(figure: Figure) -> None:
    told = {name: value for name, value in asdict(figure).items() if value not in (None, "")}
    print(json.dumps(told), flush=True)


def print_table(figures: list[Figure]) -> None:
    rows = [("store", "what", "value", "unit", "beside", "ratio", "goal")]
    rows += [
        (
            figure.store,
            figure.what,
            short(figure.value),
            figure.unit,
            f"{figure.beside} {short(figure.limit)}" if figure.limit is not None else "",
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            figure.goal,
        )
        for figure in figures
    ]
    print_rows(rows)


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def quartiles_of(values: Iterable[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    ordered = sorted(values)
    lower, median, upper = statistics.quantiles(ordered * 2 if len(ordered) == 1 else ordered, method="inclusive")
    return lower, median, upper


def with_quartiles(values: Iterable[float]) -> str:
    """Return the median, and the quartiles in brackets unless they are the same."""
    lower, median, upper = map(short, quartiles_of(values))
    return median if lower == upper else f"{median} ({lower} to {upper})"


def short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
