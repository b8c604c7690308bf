"""The command simulate: tables, JSON, a chart, and what it says of files that are wrong."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.command_line import as_json, process

from jobboard.cli.app import OK, USAGE, run
from jobboard.simulation import comparing

LIMITS = '[limits.lane."tenant:*"]\nrunning = 1\n'
ARRIVALS = "at,name,lane,duration,priority\n0,import,tenant:a,10,\n0,import,tenant:a,10,\n0,import,tenant:<b>,10,\n"
HEAD = "lane\tjobs\tunstarted\tp50_without\tp50\tp95_without\tp95\tlongest_without\tlongest\tshare_without\tshare"

Simulate = Callable[..., str]


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Simulate:
    """Run the command on these files, and return what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JOBBOARD_URI", raising=False)

    def simulate(*options: str, limits: str = LIMITS, arrivals: str = ARRIVALS, status: int = OK) -> str:
        Path("limits.toml").write_text(limits, encoding="utf-8")
        Path("arrivals.csv").write_text(arrivals, encoding="utf-8")
        assert run(["simulate", "limits.toml", "arrivals.csv", *options]) == status
        out, err = capsys.readouterr()
        assert bool(err) == (status != OK), err
        return str(out or err)

    return simulate


def test_waits_and_shares_stand_side_by_side(simulate: Simulate) -> None:
    assert simulate("--slots", "2").splitlines() == [
        HEAD,
        "tenant:a\t2\t-\t0s\t0s\t0s\t10s\t0s\t10s\t100.0 %\t50.0 %",
        "tenant:<b>\t1\t-\t10s\t0s\t10s\t0s\t10s\t0s\t0.0 %\t50.0 %",
        "all\t3\t-\t0s\t0s\t10s\t10s\t10s\t10s\t100.0 %\t100.0 %",
    ]


def test_json_has_every_lane(simulate: Simulate) -> None:
    arrivals = ARRIVALS + "".join(f"0,import,other:{n},1,\n" for n in range(30))
    found = as_json(simulate("--slots", "2", "--json", arrivals=arrivals))
    assert len(found["lanes"]) == 32
    first = found["lanes"][0]
    assert (first["lane"], first["name"], first["with"]["most"], first["without"]["most"]) == ("tenant:a", None, 1, 2)
    assert found["all"]["with"]["jobs"] == 33
    assert len(simulate("--slots", "2", arrivals=arrivals).splitlines()) == 22


def test_slots_may_be_those_of_names(simulate: Simulate) -> None:
    arrivals = "at,name,duration\n0,a,1\n0,b,1\n0,c,1\n0,d,1\n"
    found = as_json(simulate("--slots", "a=1", "--slots", "b,c=2", "--json", arrivals=arrivals))
    assert {each["name"]: each["with"]["unstarted"] for each in found["lanes"]} == {"a": 0, "b": 0, "c": 0, "d": 1}


def test_a_chart_is_an_svg_with_every_lane(simulate: Simulate, tmp_path: Path) -> None:
    simulate("--slots", "2", "--chart", "waits.svg")
    root = ElementTree.parse(tmp_path / "waits.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"tenant:a", "tenant:<b>", "all", "100.0 %", "50.0 %"} <= texts
    width = float(root.attrib["width"])
    for bar in root.iter("{http://www.w3.org/2000/svg}rect"):
        assert 0 <= float(bar.attrib.get("x", 0)) + float(bar.attrib["width"]) <= width


@pytest.mark.parametrize("slots", ["0", "10001", "many", "import=", "=4", "a,,b=4"])
def test_slots_that_are_none_are_refused(simulate: Simulate, slots: str) -> None:
    assert "no number of slots" in simulate("--slots", slots, status=USAGE)


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({"arrivals": ARRIVALS + "soon,import,,1,\n"}, "arrivals.csv, line 5: at is no number"),
        ({"limits": "[limits"}, "limits.toml is no TOML"),
        ({"limits": '[limits.lane."tenant:*"]\nrunning = -1\n'}, "tenant:*"),
        ({"limits": '[limits.lane."*"]\nrunning = 1\n'}, "lane"),
        ({"limits": "[limits.lane.a]\nruning = 1\n"}, "runing"),
        ({"limits": "[boards.a]\nuri = 'memory://'\n"}, "limits.toml has no table [limits] with a limit in it"),
    ],
)
def test_a_file_that_is_wrong_is_refused(simulate: Simulate, files: dict[str, str], error: str) -> None:
    assert error in simulate(status=USAGE, **files)


@pytest.mark.parametrize("missing", ["limits.toml", "arrivals.csv"])
def test_a_file_that_is_not_there_is_named(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "limits.toml").write_text(LIMITS)
    (tmp_path / "arrivals.csv").write_text(ARRIVALS)
    (tmp_path / missing).unlink()
    assert run(["simulate", "limits.toml", "arrivals.csv"]) == USAGE
    assert missing in capsys.readouterr().err


@pytest.mark.parametrize("file", ["limits.toml", "arrivals.csv"])
def test_a_file_that_is_not_utf_8_is_named(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "limits.toml").write_text(LIMITS)
    (tmp_path / "arrivals.csv").write_text(ARRIVALS)
    (tmp_path / file).write_bytes(b"\xff\xfe")
    assert run(["simulate", "limits.toml", "arrivals.csv"]) == USAGE
    assert file in capsys.readouterr().err


def test_arrivals_may_come_from_standard_input(tmp_path: Path) -> None:
    (tmp_path / "limits.toml").write_text(LIMITS)
    done = process("simulate", "limits.toml", "-", "--slots", "2", input=ARRIVALS, cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[0]) == (OK, HEAD)


def test_many_arrivals_run_in_two_processes_with_the_same_outcome(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_one = simulate("--slots", "2", "--json")
    monkeypatch.setattr(comparing, "_MANY", 0)
    assert simulate("--slots", "2", "--json") == in_one
