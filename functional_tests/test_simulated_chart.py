"""The chart of a simulation in a real browser: all of it is shown, and no text lies on another."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from harnesses.browser import browser

from jobboard.cli.app import OK, run

LIMITS = '[limits.lane."tenant:*"]\nrunning = 2\n[limits.lane.stopped]\nrunning = 0\n'
_BOXES = """
return [...document.querySelectorAll("text")].map((one) => {
  const box = one.getBoundingClientRect();
  return [one.textContent, box.left, box.top, box.right, box.bottom];
});
"""


def test_no_text_of_a_chart_lies_on_another_or_outside(tmp_path: Path) -> None:
    lanes = [f"tenant:{number}" for number in range(25)] + [
        "stopped",
        "<script>alert(1)</script>",
        "x" * 200,
        "\u4e16" * 40,
    ]
    arrivals = [f"{at},import,{lane},{300 + at}" for at in range(5) for lane in lanes]
    (tmp_path / "limits.toml").write_text(LIMITS, encoding="utf-8")
    (tmp_path / "arrivals.csv").write_text("\n".join(["at,name,lane,duration", *arrivals]), encoding="utf-8")
    chart = tmp_path / "waits.svg"
    files = [str(tmp_path / "limits.toml"), str(tmp_path / "arrivals.csv")]
    assert run(["simulate", *files, "--slots", "4", "--chart", str(chart)]) == OK
    with browser() as shown:
        shown.open(chart.as_uri())
        boxes = shown.script(_BOXES)
        width = shown.script("return document.documentElement.viewBox.baseVal.width")
        assert shown.messages() == []
    assert len(boxes) > 60
    assert [text for text, left, top, right, _ in boxes if left < 0 or top < 0 or right > width] == []
    assert [(one[0], other[0]) for one, other in combinations(boxes, 2) if _overlap(one, other)] == []


def _overlap(one: tuple[str, float, float, float, float], other: tuple[str, float, float, float, float]) -> bool:
    """Whether they share more than the gaps that fonts have above and below their letters."""
    _, left, top, right, bottom = one
    _, other_left, other_top, other_right, other_bottom = other
    across = min(right, other_right) - max(left, other_left)
    down = min(bottom, other_bottom) - max(top, other_top)
    return across > 1 and down > 4
