"""What ``python -m benchmarks`` says about goals and about packages that are missing; nothing here depends on speed."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
#: As if a package was not installed.
WITHOUT = "import runpy, sys; sys.modules[sys.argv.pop(1)] = None; runpy.run_module('benchmarks', run_name='__main__')"


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)


def goal(aim: str, **others: str) -> Any:
    return importlib.import_module("benchmarks.goals.goal").Goal("drain", "/s", aim, **others)


def found(**values: list[float]) -> dict[str, Any]:
    """What the sides have told about drains."""
    results = importlib.import_module("benchmarks.peers.report").Results
    return {side: results(values={"drain": told}) for side, told in values.items()}


def verdict_of(aimed: Any, sides: dict[str, Any]) -> str:
    verdict: str = importlib.import_module("benchmarks.goals.report").outcome_of("tin", aimed, sides).verdict
    return verdict


@pytest.mark.parametrize(
    ("aim", "value", "ratio", "is_met"),
    [
        ("<= 2", 2.0, None, True),
        ("< 2", 2.0, None, False),
        (">= 40,000", 39_999.0, 9.0, False),
        ("ratio >= 1.5", 9.0, 1.4, False),
        ("ratio >= 1.5", 9.0, None, False),
        (">= 40,000 or ratio >= 2", 100.0, 2.0, True),
        ("<= 30 or ratio <= 1.07", 30.0, 2.0, True),
    ],
)
def test_an_aim_holds_by_the_figure_or_by_its_ratio(aim: str, value: float, ratio: float | None, is_met: bool) -> None:
    assert goal(aim).is_met(value, ratio) is is_met


def test_a_goal_is_met_by_the_median_of_the_ratios_of_the_rounds() -> None:
    aimed = goal("ratio >= 2", beside="Peer")
    # Its own medians are 30 and 20.
    assert verdict_of(aimed, found(jobboard=[10, 30, 80], Peer=[5, 20, 40])) == "met"
    assert verdict_of(aimed, found(jobboard=[10, 30, 80], Peer=[6, 20, 41])) == "MISSED"


def test_what_could_not_be_measured_is_neither_met_nor_missed() -> None:
    assert verdict_of(goal("ratio >= 2", beside="before"), found(jobboard=[1.0])) == "not measured: needs --against"
    sides = found(jobboard=[1.0], Peer=[])
    sides["Peer"].fault = "not installed: no npm"
    assert verdict_of(goal("ratio >= 2", beside="Peer"), sides) == "not measured: Peer: not installed: no npm"


def test_every_goal_can_be_judged() -> None:
    goals = importlib.import_module("benchmarks.goals.__main__").GOALS
    judged = [aimed.is_met(1.0, 1.0) for parts in goals.values() for part in parts for aimed in part.goals]
    assert len(judged) > 20


def test_goals_of_a_store_are_measured_in_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    main = importlib.import_module("benchmarks.goals.__main__").main
    main(["sqlite-full", "--only", "batches", "--rounds", "2", "--scale", "0.01", "--json"])
    told = capsys.readouterr()
    lines = [json.loads(line) for line in told.out.splitlines()]
    assert [line["what"] for line in lines] == ["post in batches of 100", "claim and consume in batches of 100"]
    assert [(len(line["rounds"]), len(line["rounds beside"])) for line in lines] == [(2, 2), (2, 2)]
    assert {line["verdict"] for line in lines} <= {"met", "MISSED"}
    assert "sqlite-full, batches: round 2 of 2" in told.err


def test_the_table_has_a_line_for_each_goal(capsys: pytest.CaptureFixture[str]) -> None:
    report = importlib.import_module("benchmarks.goals.report")
    aimed = goal("ratio >= 2", beside="Peer")
    sides = found(jobboard=[10, 30, 80], Peer=[5, 20, 40])
    report.print_table([report.outcome_of("tin", aimed, sides), report.outcome_of("tin", aimed, {})])
    assert capsys.readouterr().out.splitlines()[1:] == [
        "tin    drain  ratio >= 2  30 (20 to 55) /s  Peer 20 (12.5 to 30)  2.00   met",
        "tin    drain  ratio >= 2                    Peer                         not measured: no jobboard",
    ]


def without(package: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, package, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_without_a_package_of_an_extra_only_what_needs_it_does_not_run() -> None:
    assert without("anyio", "--help").returncode == 0
    named = without("anyio", "memory", "--only", "aio")
    assert (named.returncode, named.stderr) == (
        1,
        "aio: jobboard.aio needs the Python package 'anyio': pip install 'jobboard[aio]'\n",
    )
    others = without("redis", "redis")
    assert (others.returncode, others.stderr) == (
        1,
        "redis needs the Python package 'redis': pip install 'jobboard[redis]'\n",
    )


def test_what_is_not_named_and_can_not_be_loaded_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module("benchmarks.catalogue")
    monkeypatch.setitem(sys.modules, "no_such_package", None)
    places = {"there": ("json:dumps", "core"), "gone": ("no_such_package:one", "tin")}
    assert module.Catalogue(places).load([], places) == {"there": json.dumps}
    assert (
        capsys.readouterr().out
        == "# left out: gone needs the Python package 'no_such_package': pip install 'jobboard[tin]'\n"
    )
    with pytest.raises(SystemExit, match="gone needs"):
        module.Catalogue(places).load(["gone"], places)


def test_a_peer_tells_what_limits_cost(tmp_path: Path) -> None:
    peers = ROOT / "benchmarks" / "peers"
    measure = "import sys, measuring, with_jobboard as peer; measuring.measure_limits(peer.Jobboard(sys.argv[1]), 10)"
    command = [sys.executable, "-c", measure, f"sqlite:///{tmp_path / 'board.db'}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(peers), str(ROOT)])}
    said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    rates = {told["what"]: told["value"] for told in map(json.loads, said.stdout.splitlines())}
    drains = {"drain, one at a time", "drain, under a rate"}
    assert set(rates) == drains | {f"{drain}: CPU of the worker for a job" for drain in drains}
    # Of so few that run at once the last one may tell its moment before the first.
    assert rates["drain, one at a time"] > 0
