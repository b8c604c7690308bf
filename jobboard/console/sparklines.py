"""Small charts that the server draws: lines, gaps where nothing is known, bands where something was paused. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

#: The units of a drawing; the line keeps so far from the upper and the lower edge.
WIDTH, HEIGHT, _EDGE = 200.0, 36.0, 3.0

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Sparkline:
    """Paths as SVG has them, one for each line, and bands, each with its left edge and its width."""

    paths: tuple[str, ...]
    bands: tuple[tuple[float, float], ...]


def sparkline(lines: Sequence[Values], is_marked: Sequence[bool]) -> Sparkline | None:
    """Draw lines of as many points from the left to the right, on one scale that begins at 0.

    :param is_marked: for each point whether a band is behind it.
    :returns: None if no value is known, or all are 0.
    """
    known = [value for line in lines for value in line if value is not None]
    if not any(known):
        return None
    step = WIDTH / len(is_marked)
    bands = tuple((round(first * step, 1), round(number * step, 1)) for first, number in _runs(is_marked))
    return Sparkline(tuple(_path(line, step, max(known)) for line in lines), bands)


def _path(line: Values, step: float, most: float) -> str:
    """Return a path through the known values; one between unknown ones is a dot."""
    places = [
        None if value is None else (round((index + 0.5) * step, 1), _height(value, most))
        for index, value in enumerate(line)
    ]
    parts = []
    for first, number in _runs([place is not None for place in places]):
        points = [f"{place[0]:g} {place[1]:g}" for place in places[first : first + number] if place]
        parts.append(f"M{'L'.join(points)}" if number > 1 else f"M{points[0]}h0")
    return "".join(parts)


def _height(value: float, most: float) -> float:
    return round(HEIGHT - _EDGE - value / most * (HEIGHT - 2 * _EDGE), 1)


def _runs(marks: Sequence[bool]) -> list[tuple[int, int]]:
    """Return where marked ones begin that stand together, and how many these are."""
    groups = [list(group) for _, group in groupby(enumerate(marks), key=lambda each: each[1])]
    return [(group[0][0], len(group)) for group in groups if group[0][1]]
