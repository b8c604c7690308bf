"""A soak sees what grows, and nothing else; the soak itself runs by command."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from soak.diary import violations
from soak.figures import trends
from soak.run import run


def figures_of(kind: str, growth: float, start: float = 50.0) -> list[dict[str, float]]:
    """A hundred samples that warm up, wobble, and grow so much over the whole run."""
    chance = random.Random(1)
    return [
        {f"thread {kind}": start * min(1.0, 0.5 + n / 20) + growth * n / 100 + chance.uniform(-1, 1)}
        for n in range(100)
    ]


@pytest.mark.parametrize(("kind", "leak"), [("MB", 40.0), ("files", 30.0), ("threads", 20.0), ("items", 500.0)])
def test_what_grows_is_seen(kind: str, leak: float) -> None:
    assert [trend.grew for trend in trends(figures_of(kind, 0.0))] == [False]
    assert [trend.grew for trend in trends(figures_of(kind, leak))] == [True]


def test_a_soak_measures_each_process_and_the_store(tmp_path: Path) -> None:
    said: list[str] = []
    soak = run("sqlite", 6.0, tmp_path, said.append, rate=20.0)
    samples = soak.samples
    kinds = {
        f"{executor} {kind}" for executor in ("thread", "process", "asyncio") for kind in ("MB", "files", "threads")
    }
    assert set(samples[-1]) == {*kinds, "store items"}
    assert len(samples) == len(said) > 5
    assert samples[-1]["store items"] > 50
    assert soak.violations == []


BEGAN, ENDED = {"job": "a", "token": 1, "fire": None}, {"job": "a", "token": 1, "lost": False}


@pytest.mark.parametrize(
    ("entries", "broken"),
    [
        ([BEGAN, ENDED], False),
        ([BEGAN, ENDED, {**BEGAN, "token": 2}], False),
        # It was killed, or knows that its claim is lost.
        ([BEGAN, {**BEGAN, "token": 2}], False),
        ([BEGAN, {**BEGAN, "token": 2}, {**ENDED, "lost": True}], False),
        ([BEGAN, {**BEGAN, "token": 2}, ENDED], True),
        ([BEGAN, ENDED, BEGAN], True),
        ([], True),
        ([{**BEGAN, "fire": ["s", 1.0]}, {**BEGAN, "token": 2, "fire": ["s", 1.0]}], False),
        ([{**BEGAN, "fire": ["s", 1.0]}, {**BEGAN, "job": "b", "fire": ["s", 1.0]}], True),
        ([{**BEGAN, "fire": ["s", 1.0]}, {**BEGAN, "job": "b", "fire": ["s", 3.0]}], True),
    ],
)
def test_what_the_diary_shows_of_broken_promises(tmp_path: Path, entries: list[dict[str, Any]], broken: bool) -> None:
    diary = tmp_path / "diary"
    diary.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert bool(violations(diary, ["a"])) is broken
