"""What a terminal showed, as a film in an SVG without a script: each row moves its texts past the window by CSS.

It begins with the last screen, for who looks but once, and stays there where nothing may move, or nothing can. It has
its own dark ground, so that it stands on light pages and on dark ones.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from xml.etree import ElementTree

from harnesses.terminal import COLUMNS, ROWS, Screen, Span

#: Of a character, a row, and the edge around them; and seconds of the last screen, first and at the end.
_WIDTH, _HEIGHT, _EDGE, _FIRST, _LAST = 8.4, 19, 14, 4, 8.0
_COLORS = {"default": "#d7dae0", "red": "#ff8078", "green": "#7ee787", "brown": "#e3b341", "cyan": "#76d9e6"}
_STYLE = (
    "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    f"fill:{_COLORS['default']};white-space:pre}}.b{{font-weight:bold}}"
    "@media(prefers-reduced-motion:reduce){g{animation:none!important}}"
)
_SVG = "{http://www.w3.org/2000/svg}"


def film(screens: Sequence[tuple[float, Screen]], title: str) -> str:
    """Return the SVG.

    :param screens: the seconds at which each was there first. :param title: what it tells who can't see it.
    """
    width, height = round(COLUMNS * _WIDTH + 2 * _EDGE), ROWS * _HEIGHT + 2 * _EDGE
    length = screens[-1][0] + _LAST
    rows = [_row(number, _changes(screens, number), width, length) for number in range(ROWS)]
    style = _STYLE + "".join(style for style, _ in rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{html.escape(title)}</title><style>{style}</style>'
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" fill="#14171c" stroke="#565c66"/>\n'
        + "\n".join(texts for _, texts in rows if texts)
        + "\n</svg>\n"
    )


def rows_of(svg: str) -> list[list[str]]:
    """Return all that each row of a film shows, in order."""
    groups = ElementTree.fromstring(svg).findall(f"{_SVG}g")
    return [["".join(text.itertext()) for text in group.iter(f"{_SVG}text")] for group in groups]


def _changes(screens: Sequence[tuple[float, Screen]], number: int) -> list[tuple[float, tuple[Span, ...]]]:
    """Return what a row shows, and from when on."""
    changes: list[tuple[float, tuple[Span, ...]]] = []
    for moment, screen in screens:
        if not changes or changes[-1][1] != screen[number]:
            changes.append((moment, screen[number]))
    return changes


def _row(number: int, changes: list[tuple[float, tuple[Span, ...]]], width: int, length: float) -> tuple[str, str]:
    """Return a row's style and its texts, each one window further to the right than the one before."""
    if not any(spans for _, spans in changes):
        return "", ""
    moves = [
        f"{0 if place == 0 else 100 * moment / length:.5g}%{{transform:translate({-place * width}px)}}"
        for place, (moment, _) in enumerate(changes)
    ]
    last = (1 - len(changes)) * width
    style = (
        f".r{number}{{transform:translate({last}px);animation:r{number} {length:.1f}s step-end {_FIRST}s infinite}}"
        f"@keyframes r{number}{{{''.join(moves)}100%{{transform:translate({last}px)}}}}"
    )
    y = _EDGE + _HEIGHT * number + 14
    texts = "".join(_text(spans, place * width + _EDGE, y) for place, (_, spans) in enumerate(changes))
    return style, f'<g class="r{number}">{texts}</g>'


def _text(spans: tuple[Span, ...], left: int, y: int) -> str:
    if not spans:
        return ""
    return f'<text y="{y}">{"".join(_span(span, left) for span in spans)}</text>'


def _span(span: Span, left: int) -> str:
    look = ' class="b"' if span.bold else ""
    if span.color != "default":
        look += f' fill="{_COLORS.get(span.color, f"#{span.color}")}"'
    place = f'x="{left + span.column * _WIDTH:g}" textLength="{len(span.text) * _WIDTH:g}"'
    return f"<tspan {place}{look}>{html.escape(span.text, quote=False)}</tspan>"
