"""A picture of the table: a bar for each peer's median, a line from its lower to its upper quartile."""

from __future__ import annotations

from pathlib import Path

from benchmarks.curves import pyplot_for_files
from benchmarks.peers.report import Table

_SHOWN = {
    "drain": "jobs drained by one worker process, a second",
    "post one by one": "posts one by one, a second",
    "post in batches of 100": "posts in batches of 100, a second",
    "pick-up p50": "median of a pick-up, ms (less is better)",
}
_OURS, _THEIRS = "#1f77b4", "#b0b0b0"


def draw(table: Table, title: str, path: Path) -> None:
    """Write the picture, in the format that the file's name says; needs matplotlib."""
    shown = {what: label for what, label in _SHOWN.items() if any(one.values.get(what) for one in table.values())}
    figure, all_axes = pyplot_for_files().subplots(
        len(shown), 1, figsize=(8, 0.9 + len(shown) * (0.5 + 0.26 * len(table)))
    )
    for axes, (what, label) in zip(all_axes, shown.items(), strict=True):
        found = [(peer, quartiles) for peer, one in table.items() if (quartiles := one.quartiles(what)) is not None]
        medians = [median for _, (_, median, _) in found]
        below = [median - lower for _, (lower, median, _) in found]
        above = [upper - median for _, (_, median, upper) in found]
        colours = [_OURS if peer.is_board else _THEIRS for peer, _ in found]
        bars = axes.barh([peer.name for peer, _ in found], medians, color=colours, xerr=[below, above])
        axes.bar_label(bars, [f"{median:,.0f}" if median >= 100 else f"{median:.2f}" for median in medians], padding=4)
        axes.set_title(label, loc="left", fontsize=10)
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.15)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
