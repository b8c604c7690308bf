"""The import of job stores that APScheduler filled, and of pickles that nobody should load."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import pytz
import pytz_deprecation_shim
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.combining import AndTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from helpers import apscheduler_jobs
from helpers.apscheduler_jobs import BERLIN, FUNCTION, REFUSED, SOON, add_all, filled
from helpers.command_line import Run, as_json
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from jobboard import At, Calendar, Cron, Every, JobBoard, Schedule
from jobboard.apscheduler.pickled_names import as_zone
from jobboard.apscheduler.pickles import MAX_BYTES, read_pickle
from jobboard.apscheduler.reading import read_job
from jobboard.cli.app import USAGE, run
from jobboard.testing.contract.clockwork import fire, fires_of

pytest_plugins = ("helpers.command_fixtures",)


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    """The URI of a job store."""
    return f"sqlite:///{tmp_path}/apscheduler.sqlite"


@pytest.fixture
def scheduler(jobs: str) -> Iterator[BackgroundScheduler]:
    with filled(SQLAlchemyJobStore(jobs)) as scheduler:
        yield scheduler


class TestWhatAPSchedulerStored:
    def test_each_job_becomes_a_schedule_or_tells_why_not(
        self, uri: str, board: JobBoard, scheduler: BackgroundScheduler, jobs: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        add_all(scheduler)
        arguments = ["schedule", "import", "--from", jobs, "--map", f"{FUNCTION}=report", "--json"]
        before = Path(jobs.removeprefix("sqlite:///")).read_bytes()
        outcomes = {}
        for step, option in (("preview", ["--dry-run"]), ("first", []), ("again", [])):
            assert run([*arguments, *option]) == 1
            out, err = capsys.readouterr()
            assert err == "jobboard: 5 jobs of 18 can't be imported; the reasons are in the list\n"
            outcomes[step] = {row["id"]: row for row in json.loads(out)}
            assert len(list(board.schedules)) == (0 if step == "preview" else 13)
        for id, reason in REFUSED.items():
            assert {rows[id]["outcome"] for rows in outcomes.values()} == {"refused"}
            assert reason in outcomes["first"][id]["reason"]
        for step, outcome in (("preview", "importable"), ("first", "imported"), ("again", "kept")):
            assert {row["outcome"] for id, row in outcomes[step].items() if id not in REFUSED} == {outcome}
        for id, note in (("position", "executor 'pool' is left out"), ("or interval", "an interval within")):
            assert outcomes["preview"][id]["notes"] == outcomes["first"][id]["notes"]
            assert outcomes["first"][id]["notes"][0].startswith(note)
        for id, row in outcomes["preview"].items():
            assert row["next_fire_time"] == outcomes["first"][id]["next_fire_time"]
        assert Path(jobs.removeprefix("sqlite:///")).read_bytes() == before

        end, new_york = SOON + timedelta(days=9), "America/New_York"
        start = SOON - timedelta(days=400)
        defaults: dict[str, Any] = {"misfire_grace": 1.0}
        expected = [
            Schedule("date", At(SOON), "report", **defaults),
            Schedule("overdue", At(SOON - timedelta(days=9)), "report"),
            Schedule("interval", Every(minutes=90, start=start), "report",
                     {"to": ["a", {"b": 1.5}], "at": SOON, "raw": b"\0"}, end=end, coalesce="all", max_instances=3,
                     **defaults),
            Schedule("cron", Cron("*/15 7 * * mon-fri", "Europe/Berlin"), "report", jitter=30, misfire_grace=3600),
            Schedule("pytz", Cron("0 1,3 L 1-3,12 *", new_york), "report", **defaults),
            Schedule("crontab", Cron("*/5 8-18/2 * * *"), "report", {"args": [1, "two"]}, **defaults),
            Schedule("calendar", Calendar(months=2, at="09:30", tz="Europe/Berlin", start=datetime(2026, 1, 3).date()),
                     "report", **defaults),
            Schedule("moved", board.schedules.get("moved").trigger, "report", **defaults),
        ]  # fmt: skip
        for schedule in expected:
            assert board.schedules.get(schedule.id) == schedule
        assert board.schedules.get("moved").next_fire_time == SOON + timedelta(minutes=7)
        assert board.schedules.get("paused").state == "paused"
        # The date job that came due meanwhile runs at once, and no other.
        assert (fire(board), fires_of(board.iterjobs())) == (1, [SOON - timedelta(days=9)])

    def test_the_fire_times_are_those_of_apscheduler(
        self,
        jobboard: Run,
        board: JobBoard,
        scheduler: BackgroundScheduler,
        jobs: str,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        add_all(scheduler)
        # An interval within "or" begins anew there at each fire time of the other parts; and "and" takes it minutes.
        for id in (*REFUSED, "paused", "or interval", "and"):
            scheduler.remove_job(id)
        assert run(["schedule", "import", "--from", jobs, "--map", f"{FUNCTION}=report"]) == 0
        told = capsys.readouterr().out.splitlines()
        shown = {line.split("\t")[0]: line.split("\t")[4] for line in told}
        listed = [line.split("\t") for line in jobboard("schedule", "ls").splitlines()[1:]]
        assert {id: next_fire_time for id, _, next_fire_time, *_ in listed}.items() <= shown.items()
        for job in scheduler.get_jobs():
            if getattr(job.trigger, "jitter", None):
                job.trigger.jitter = None
            before, theirs = None, [job.next_run_time]
            for _ in range(20):
                before = theirs[-1]
                found = job.trigger.get_next_fire_time(before, before + timedelta(microseconds=1))
                if found is None:
                    break
                theirs.append(found)
            ours = board.schedules.upcoming(job.id, len(theirs))
            # The first of a trigger with jitter is APScheduler's own.
            skipped = 1 if job.id == "cron" else 0
            assert ours[skipped:] == theirs[skipped:], job.id

    @pytest.mark.filterwarnings("ignore::pytz_deprecation_shim.PytzUsageWarning")
    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_every_protocol_and_kind_of_zone_is_read(self, protocol: int) -> None:
        zones = [BERLIN, pytz.timezone("Europe/Berlin"), pytz_deprecation_shim.timezone("Europe/Berlin")]
        for zone in zones:
            made = read_pickle(pickle.dumps(CronTrigger(hour=3, timezone=zone), protocol))
            assert as_zone(made.fields["timezone"]) == BERLIN
        summer = datetime(2026, 7, 1, 12, 30, 15, 5, tzinfo=UTC)
        for zone in (*zones, pytz.utc, UTC, pytz.FixedOffset(90), timezone(timedelta(hours=-3))):
            # Of pytz an aware datetime has one of its zone's offsets.
            made = read_pickle(pickle.dumps(DateTrigger(summer.astimezone(zone)), protocol))
            assert (made.kind, made.fields["run_date"]) == ("DateTrigger", summer)
        plain = [1, -(2**40), 1.5, "text \N{SNOWMAN}", b"\0\xff", None, True, False, (1, 2, 3, 4), {"a": [{}]}, summer]
        assert read_pickle(pickle.dumps(plain, protocol)) == plain

    def test_states_of_version_3_0_are_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        trigger = IntervalTrigger(hours=1, start_date=SOON, timezone="UTC")
        state = trigger.__getstate__()
        del state["version"], state["jitter"]
        monkeypatch.setattr(IntervalTrigger, "__getstate__", lambda self: (None, state))
        found = read_job("old", pickle.dumps(job_state(trigger)), {"a:b": "c"}, 0)
        assert found.schedule == Schedule("old", Every(hours=1, start=SOON), "c")


def job_state(trigger: Any = None, **others: Any) -> dict[str, Any]:
    return {"func": "a:b", "trigger": trigger or DateTrigger(SOON), "args": (), "kwargs": {}} | {
        "next_run_time": SOON, "misfire_grace_time": None, "max_instances": 1, **others}  # fmt: skip


class Call:
    """Pickles as a call."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> Any:
        return self._call


def nested(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


def shared(times: int) -> Any:
    """A list of a few lists, each of which is the next one many times: billions of values."""
    found: Any = ["x"] * 10
    for _ in range(times):
        found = [found] * 10
    return found


HOSTILE = {
    "os.system": (Call(os.system, "touch mark"), r"it holds (posix|os)\.system, which is no state"),
    "eval": (Call(eval, "open('mark', 'w')"), r"it holds (builtins|__builtin__)\.eval"),
    "an attribute of a module": (Call(getattr, Call(__import__, "os"), "system"), r"it holds \w+\.__import__"),
    "a function of the program's": (Call(apscheduler_jobs.report), r"it holds helpers\.apscheduler_jobs\.report"),
    "another attribute of a zone": (Call(getattr, ZoneInfo, "from_file"), "it reads an attribute"),
    "a zone that is a file": (Call(ZoneInfo, "/etc/passwd"), "there is no zone"),
    "a class": (apscheduler_jobs.Thing(), r"it holds helpers\.apscheduler_jobs\.Thing"),
    "a trigger made anew": (Call(IntervalTrigger, 1), "it calls apscheduler"),
    "a set": ({1, 2}, r"hold a set, which details can't|\.set, which"),
    "a key that is no str": ({1: 2}, "a key that is no str"),
    "a large number": (2**100, "a number of more than 64 bits"),
    "deep nesting": (nested(300), "nested deeper than 16"),
    "billions of values": (shared(9), "more than 20000 values"),
    "many steps": ([True] * 60_000, "more than 50000 steps"),
    "much text": ("x" * MAX_BYTES, f"at most {MAX_BYTES} are read"),
}


class TestWhatNobodyShouldLoad:
    @pytest.mark.parametrize("kind", HOSTILE)
    def test_it_is_refused_and_not_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        monkeypatch.chdir(tmp_path)
        value, reason = HOSTILE[kind]
        for protocol in (0, 2, 4):
            states = [job_state(args=[value]), job_state(kwargs={"a": value}), job_state(value), value]
            faults = [read_job("a", pickle.dumps(state, protocol), {"a:b": "c"}, 0).reason for state in states]
            assert all(faults)
            assert re.search(reason, str(faults[0]))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "data",
        [
            b"", b".", b"garbage", b"N", b"(", b"t.", b"N0.", b"NN.", b"]N]Nu.", b"}NNs.", b"Na.", b"R.",
            b"cos\nsystem\n.",
            b"P1\n.", b"\x82\x01.", b"\x8c\xff.", b"\x8d" + b"\xff" * 8 + b".", b"j\xff\xff\xff\x7f.", b"h\x07.",
            b"\x80\xff.", b"\x95" + b"\xff" * 8 + b"N.", b"\x8b\xff\xff\xff\x7f1.", b"I" + b"9" * 5000 + b"\n.",
            b"ccopy_reg\n_reconstructor\n(cbuiltins\nobject\ncbuiltins\nobject\nNtR.",
            b"cdatetime\ndatetime\n(K\x01tR.", b"cdatetime\ntimedelta\n(I99999999999\ntR.",
            b"cpytz\n_p\n(V../../x\ntR.",
            b"(lp0\ng0\na.", b"N" * 60_000 + b".", b"(" * 49_000 + b".",
        ],
    )  # fmt: skip
    def test_bytes_that_are_no_state_are_refused(self, data: bytes) -> None:
        assert read_job("a", data, {"a:b": "c"}, 0).reason

    def test_a_large_index_takes_no_memory(self) -> None:
        assert read_pickle(b"Nr\xff\xff\xff\x7f.") is None

    @given(st.binary(max_size=200), st.integers(0, 400), st.binary(min_size=1, max_size=3))
    @settings(max_examples=300, deadline=None)
    def test_no_bytes_do_anything_but_be_read_or_refused(self, data: bytes, place: int, other: bytes) -> None:
        whole = pickle.dumps(job_state(CronTrigger(hour=3, timezone=BERLIN)), 2)
        for candidate in (data, whole[:place] + other + whole[place + len(other) :]):
            read_job("a", candidate, {"a:b": "c"}, 0)


class TestStores:
    def test_what_is_no_store_is_refused(self, jobboard: Run, tmp_path: Path) -> None:
        name = ("--map", "a:b=c")
        for store, reason in (
            (f"sqlite:///{tmp_path}/none.sqlite", "there is no file"),
            ("jobs.sqlite", "looks like"),
            ("nothing://user:secret@host/db", "none that SQLAlchemy reads"),
            ("postgresql://user:secret@host:port/db", "none that SQLAlchemy reads"),
        ):
            said = jobboard("schedule", "import", "--from", store, *name, status=USAGE)
            assert (reason in said, "secret" in said) == (True, False)
        assert list(tmp_path.glob("none*")) == []
        (tmp_path / "other.sqlite").touch()
        jobboard("schedule", "import", "--from", f"sqlite:///{tmp_path}/other.sqlite", *name, status=3)

    def test_a_table_of_another_name_and_more_than_a_page_are_read(
        self, jobboard: Run, board: JobBoard, jobs: str, tmp_path: Path
    ) -> None:
        with filled(SQLAlchemyJobStore(jobs, tablename="mine")) as scheduler:
            scheduler.add_job(apscheduler_jobs.report, "date", run_date=SOON, id="000")
        copy = "INSERT INTO mine SELECT :id, next_run_time, job_state FROM mine WHERE id = '000'"
        large = "UPDATE mine SET job_state = zeroblob(:size) WHERE id = '007'"
        with create_engine(jobs).begin() as connection:
            connection.execute(text(copy), [{"id": f"{number:03}"} for number in range(1, 205)])
            connection.execute(text(large), {"size": MAX_BYTES + 1})
        (tmp_path / "uri").write_text(f"{jobs}\n")
        arguments = (
            "schedule",
            "import",
            "--from",
            f"@{tmp_path}/uri",
            "--jobs-in",
            "mine",
            "--map",
            f"{FUNCTION}=report",
        )
        assert "1 job of 205 can't be imported" in jobboard(*arguments, status=1)
        assert [found.id for found in board.schedules] == [f"{number:03}" for number in range(205) if number != 7]

    def test_one_that_is_there_is_kept_unless_it_is_to_be_replaced(
        self, jobboard: Run, board: JobBoard, scheduler: BackgroundScheduler, jobs: str
    ) -> None:
        scheduler.add_job(apscheduler_jobs.report, "interval", hours=1, id="a")
        board.schedules.add(Schedule("a", Every(hours=7), "mine"))
        arguments = ("schedule", "import", "--from", jobs, "--map", f"{FUNCTION}=report", "--json")
        for options, status, outcome, job in (
            ([], 0, "kept", "mine"),
            (["--if-exists", "raise"], 1, "refused", "mine"),
            (["--if-exists", "replace"], 0, "replaced", "report"),
        ):
            said = jobboard(*arguments, *options, status=status)
            if status == 0:
                assert [row["outcome"] for row in as_json(said)] == [outcome]
            assert board.schedules.get("a").job == job

    def test_no_fault_of_one_job_stops_another(
        self, board: JobBoard, scheduler: BackgroundScheduler, jobs: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        days = [CronTrigger(month=month, day=1, timezone="UTC") for month in (1, 2)]
        scheduler.add_job(apscheduler_jobs.report, AndTrigger(days), id="a never")
        ended = CronTrigger(hour=1, end_date=SOON, timezone="UTC")
        scheduler.add_job(apscheduler_jobs.report, ended, id="b late", next_run_time=SOON + timedelta(days=1))
        scheduler.add_job(apscheduler_jobs.report, "cron", hour=3, id="c")
        for options, outcome in ((["--dry-run"], "importable"), ([], "imported")):
            assert run(["schedule", "import", "--from", jobs, "--map", f"{FUNCTION}=report", "--json", *options]) == 1
            out, err = capsys.readouterr()
            never, late, good = json.loads(out)
            assert (never["id"], never["outcome"], good["outcome"]) == ("a never", "refused", outcome)
            assert "AllOf found no moment after" in never["reason"]
            assert (late["outcome"], "is after the end" in late["reason"]) == ("refused", True)
            assert "2 jobs of 3 can't be imported" in err
        assert [schedule.id for schedule in board.schedules] == ["c"]

    def test_it_is_told_where_max_instances_keeps_overdue_runs_from_being_posted(
        self, board: JobBoard, scheduler: BackgroundScheduler, jobs: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        overdue = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=45)
        options = {"minutes": 10, "next_run_time": overdue, "misfire_grace_time": None}
        for number in range(7):
            scheduler.add_job(apscheduler_jobs.report, "interval", id=f"all {number}", coalesce=False, **options)
        scheduler.add_job(apscheduler_jobs.report, "interval", id="one", **options)
        assert run(["schedule", "import", "--from", jobs, "--map", f"{FUNCTION}=report"]) == 0
        told = capsys.readouterr().err.splitlines()
        assert len(told) == 1
        assert "'all 4' and 2 more (--json has all): coalesce=False: of several overdue fire times" in told[0]
        assert "'one'" not in told[0]
        # What the note says to type keeps the fire times that APScheduler would have run.
        assert "jobboard schedule modify ID --max-instances any" in told[0]
        assert run(["schedule", "modify", "all 0", "--max-instances", "any"]) == 0
        fire(board)
        posted = [board.schedules.get(id).progress for id in ("all 0", "all 1", "one")]
        assert [(progress.runs, progress.skipped) for progress in posted if progress] == [(5, 0), (1, 4), (1, 0)]

    def test_wrong_usage_is_told(self, jobboard: Run, jobs: str) -> None:
        for wrong in (
            [], ["f.json", "--from", jobs], ["f.json", "--map", "a:b=c"], ["f.json", "--jobs-in", "x"],
            ["--from", jobs, "--crontab"], ["--from", jobs, "--map", "report"], ["--from", jobs, "--map", "a=b"],
        ):  # fmt: skip
            jobboard("schedule", "import", *wrong, status=USAGE)

    def test_no_apscheduler_is_needed(self, scheduler: BackgroundScheduler, uri: str, jobs: str) -> None:
        scheduler.add_job(apscheduler_jobs.report, "cron", hour=3, id="a")
        code = (
            "import sys; sys.modules.update(apscheduler=None, pytz=None, tzlocal=None)\n"
            "from jobboard.cli import main; main()"
        )
        arguments = [sys.executable, "-c", code, "schedule", "import", "--from", jobs, "--map", f"{FUNCTION}=report"]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True)
        assert "\timported\treport\t" in done.stdout
