"""A picture of figures over time: a line for each thing that was measured."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def check_chart(path: Path | None) -> None:
    """End the program if a picture is wanted that can't be drawn."""
    if path is not None and importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("--chart needs matplotlib: pip install matplotlib")


def pyplot_for_files() -> Any:
    """Return matplotlib's ``pyplot``, set to draw into files: the same figures give the same file, and text is text."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"svg.hashsalt": "jobboard", "svg.fonttype": "none"}
    from matplotlib import pyplot

    return pyplot


def draw_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]], title: str, across: str, up: str, path: Path
) -> None:
    """Write the picture, in the format that the file's name says; needs matplotlib.

    :param curves: the points of each line.
    :param across: what the first numbers are, and ``up`` what the second ones are.
    """
    figure, axes = pyplot_for_files().subplots(figsize=(8, 4))
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker=".", label=name)
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
