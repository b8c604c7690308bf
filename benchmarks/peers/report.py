"""What the rounds of all peers say together: medians and quartiles, as a table."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from benchmarks.figures import print_rows, quartiles_of, with_quartiles
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
        values = self.values.get(what)
        return quartiles_of(values) if values else None


Table = dict[Peer, Results]


def print_table(table: Table) -> None:
    """Print medians, with the quartiles in brackets if there are several rounds; then what each peer promises."""
    rows = [("peer", *COLUMNS.values(), "version", "one worker process")]
    for peer, results in table.items():
        version = results.version + (f" ({results.fault})" if results.fault else "")
        rows.append((peer.name, *(_cell(results, what) for what in COLUMNS), version, peer.setting))
    print_rows(rows)
    print_figures(table)
    print()
    promises = [(peer.name, peer.promises.ends, peer.promises.posts, peer.promises.crash) for peer in table]
    print_rows([("peer", "a late end", "a repeated post leaves", "a job whose worker dies"), *promises])


def print_figures(table: Table) -> None:
    """Print a line for each figure that has no column."""
    for peer, results in table.items():
        if results.fault:
            print(f"{peer.name}: {results.fault}")
        for what in results.values:
            if what not in COLUMNS:
                print(f"{peer.name}, {results.version}: {what}: {_cell(results, what)}")


def _cell(results: Results, what: str) -> str:
    values = results.values.get(what)
    return with_quartiles(values) if values else "-"
