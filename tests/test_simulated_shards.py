"""A small board of many shards in virtual time: what claims cost, and how evenly its shards have jobs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.simulated_shards")


def test_claims_find_jobs_and_shards_share_them(simulated: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--shards 16 --conductors 300 --jobs 30000 --minutely 64"
    options = simulated.parser().parse_args(words.split())
    simulation = simulated.Simulation(options)
    with simulation.events.clock():
        parts = simulation.run()
    simulated.report(options, parts, simulation, 0.0)
    assert "16 shards, 300 conductors" in capsys.readouterr().out
    _, *busy, drain = parts
    assert sum(part.starts for part in parts) == sum(shard.posted for shard in simulation.shards) >= 30_000
    for part in busy:
        assert part.requests["claim"] <= 1.2 * part.starts
    # Most shards are empty, and there are few jobs for each conductor.
    assert drain.requests["claim"] <= 1.6 * drain.starts
    posted = [shard.posted for shard in simulation.shards]
    assert max(posted) <= 1.1 * sum(posted) / len(posted)


def test_a_post_is_no_more_work_for_many_shards(simulated: Any) -> None:
    """Each call that Python makes counts; of a generator, each of its steps."""
    few, many = (_calls_of_posts(simulated, shards) for shards in (8, 512))
    assert many <= 1.1 * few


def _calls_of_posts(simulated: Any, shards: int) -> int:
    options = simulated.parser().parse_args(f"--shards {shards} --conductors 1".split())
    producer = simulated.Producer(simulated.Simulation(options).fleet())
    producer.post(None)
    calls = 0

    def count(_frame: object, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for _ in range(20):
            producer.post(None)
    finally:
        sys.setprofile(before)
    return calls
