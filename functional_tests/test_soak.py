"""A soak sees what grows, and nothing else; the soak itself runs by command."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
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
    samples = run("sqlite", 6.0, tmp_path, said.append, rate=20.0)
    kinds = {
        f"{executor} {kind}" for executor in ("thread", "process", "asyncio") for kind in ("MB", "files", "threads")
    }
    assert set(samples[-1]) == {*kinds, "store items"}
    assert len(samples) == len(said) > 5
    assert samples[-1]["store items"] > 50
