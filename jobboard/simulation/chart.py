"""Draws a comparison as SVG: for each lane its waits on a logarithmic scale, and its share, without and with limits."""

from __future__ import annotations

import math
from html import escape
from itertools import accumulate
from unicodedata import east_asian_width

from jobboard.simulation.report import Comparison, percent_text, seconds_text
from jobboard.simulation.tally import Figures

_ROW, _BAR, _TOP, _BOTTOM = 36, 11, 84, 40
#: Where the panels begin, and how wide their bars are at most.
_WAITS_AT, _WAITS, _SHARES_AT, _SHARES, _WIDTH = 230, 370, 730, 200, 1000
_MAX_LABEL = 30
#: The wait at which the scale begins, and the moments that it names.
_LEAST = 0.1
_TICKS = (0.1, 1, 10, 60, 600, 3600, 36_000, 864_000)

_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #222 }
.head { font-size: 15px; font-weight: 600 }
.number { font-size: 11px }
.without { fill: #b8b8b8; stroke: #8a8a8a }
.with { fill: #2f6fb2; stroke: #2f6fb2 }
.bar { stroke: none }
.grid { stroke: #e2e2e2 }
"""


def chart_of(comparison: Comparison) -> str:
    """Return the text of an SVG file, which a browser shows as it is."""
    lines = comparison.lines()
    height = _TOP + _ROW * len(lines) + _BOTTOM
    longest = max((figures.longest or 0.0 for _, *both in lines for figures in both), default=0.0)
    scale = _Scale(longest)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'role="img">',
        "<title>Waits and shares, without the limits and with them</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        *_heads(),
        *_grid(scale, height - _BOTTOM),
    ]
    for number, (label, without, limited) in enumerate(lines):
        parts += _line(_TOP + _ROW * number, label, without, limited, scale)
    return "\n".join([*parts, "</svg>", ""])


class _Scale:
    """Waits as lengths: logarithmic, from a tenth of a second on."""

    def __init__(self, longest: float) -> None:
        self.end = max(longest, 10 * _LEAST)

    def length(self, wait: float) -> float:
        return _WAITS * math.log10(max(wait, _LEAST) / _LEAST) / math.log10(self.end / _LEAST)


def _heads() -> list[str]:
    return [
        _text(_WAITS_AT, 24, "Wait: bar for 95 % of the jobs / line for the longest", "head"),
        _text(_SHARES_AT, 24, "Share while jobs waited", "head"),
        f'<rect class="without bar" x="{_WAITS_AT}" y="38" width="11" height="11"/>',
        _text(_WAITS_AT + 17, 48, "without the limits"),
        f'<rect class="with bar" x="{_WAITS_AT + 140}" y="38" width="11" height="11"/>',
        _text(_WAITS_AT + 157, 48, "with them"),
    ]


def _grid(scale: _Scale, bottom: int) -> list[str]:
    parts = []
    for tick in _TICKS:
        if tick <= scale.end:
            x = _WAITS_AT + scale.length(tick)
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 8}" y2="{bottom}"/>')
            parts.append(_text(x, bottom + 18, seconds_text(tick), "number", "middle"))
    return parts


def _line(top: int, label: str, without: Figures, limited: Figures, scale: _Scale) -> list[str]:
    parts = [f"<g><title>{_plain(label)}: {limited.jobs} jobs</title>"]
    parts.append(_text(_WAITS_AT - 12, top + 17, _shortened(label), anchor="end"))
    for place, (kind, figures) in enumerate((("without", without), ("with", limited))):
        parts += _bars(kind, top + place * (_BAR + 2), figures, scale)
    return [*parts, "</g>"]


def _shortened(label: str) -> str:
    """Return as much of a label as there is room for; some characters are twice as wide as others."""
    widths = accumulate(2 if east_asian_width(character) in "WF" else 1 for character in label)
    room = sum(width < _MAX_LABEL for width in widths)
    return label if room >= len(label) - 1 else label[:room] + "\u2026"


def _bars(kind: str, top: int, figures: Figures, scale: _Scale) -> list[str]:
    middle, low = top + _BAR / 2, top + _BAR - 1
    parts = []
    longest = figures.longest
    if figures.p95 is not None and longest is not None:
        length, end = scale.length(figures.p95), scale.length(longest)
        parts.append(_bar(kind, _WAITS_AT, top, length))
        x = [f"{_WAITS_AT + at:.1f}" for at in (length, end)]
        parts.append(f'<line class="{kind}" x1="{x[0]}" x2="{x[1]}" y1="{middle}" y2="{middle}"/>')
        parts.append(
            _text(_WAITS_AT + end + 6, low, f"{seconds_text(figures.p95)} / {seconds_text(longest)}", "number")
        )
    else:
        parts.append(_text(_WAITS_AT + 6, low, "none started", "number"))
    if figures.share is not None:
        length = _SHARES * figures.share
        parts.append(_bar(kind, _SHARES_AT, top, length))
        parts.append(_text(_SHARES_AT + length + 6, low, percent_text(figures.share), "number"))
    return parts


def _bar(kind: str, x: float, y: float, length: float) -> str:
    return f'<rect class="{kind} bar" x="{x}" y="{y}" width="{max(length, 1):.1f}" height="{_BAR}"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y}" text-anchor="{anchor}">{_plain(text)}</text>'


def _plain(text: str) -> str:
    """Escape what means something in XML, and replace what it can't have; control characters no lane has."""
    return escape(text).translate({0xFFFE: "?", 0xFFFF: "?"})
