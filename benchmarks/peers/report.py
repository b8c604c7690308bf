"""What the rounds of all peers say together: medians and quartiles, as a table."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass, field

from benchmarks.peers.peer import Peer

#: What is measured -> how the table calls it. The other things that a script tells follow below the table.
COLUMNS = {
    "post one by one": "post/s",
    "post in batches of 100": "in 100s/s",
    "drain": "drain/s",
    "pick-up p50": "p50 ms",
    "pick-up p99": "p99 ms",
}


@dataclass
class Results:
    """What one peer's script has told in all rounds."""

    version: str = ""
    fault: str = ""
    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def quartiles(self, what: str) -> tuple[float, float, float] | None:
        """Return the lower quartile, the median and the upper quartile; None if there is no value."""
        values = sorted(self.values.get(what, ()))
        if not values:
            return None
        if len(values) == 1:
            return values[0], values[0], values[0]
        lower, median, upper = statistics.quantiles(values, method="inclusive")
        return lower, median, upper


Table = dict[Peer, Results]


def print_table(table: Table) -> None:
    """Print medians, with the quartiles in brackets if there are several rounds; then what each peer promises."""
    rows = [("peer", *COLUMNS.values(), "version", "one worker process")]
    for peer, results in table.items():
        version = results.version + (f" ({results.fault})" if results.fault else "")
        rows.append((peer.name, *(_cell(results, what) for what in COLUMNS), version, peer.setting))
    _print_rows(rows)
    print_figures(table)
    print()
    promises = [(peer.name, peer.promises.ends, peer.promises.posts, peer.promises.crash) for peer in table]
    _print_rows([("peer", "a late end", "a repeated post leaves", "a job whose worker dies"), *promises])


def print_figures(table: Table) -> None:
    """Print a line for each figure that has no column."""
    for peer, results in table.items():
        if results.fault:
            print(f"{peer.name}: {results.fault}")
        for what in results.values:
            if what not in COLUMNS:
                print(f"{peer.name}, {results.version}: {what}: {_cell(results, what)}")


def _print_rows(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _cell(results: Results, what: str) -> str:
    quartiles = results.quartiles(what)
    if quartiles is None:
        return "-"
    lower, median, upper = map(_short, quartiles)
    return median if lower == upper else f"{median} ({lower} to {upper})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
