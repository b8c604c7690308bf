"""How commands speak: to a terminal, to a pipe, to a program, and to what is broken."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from helpers.command_line import Run, as_json, process

from jobboard import Every, JobBoard, Posting, Schedule, fetch
from jobboard.cli.app import BUG, USAGE, run
from jobboard.cli.output import count, safe, shown

pytest_plugins = ("helpers.command_fixtures",)

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def on_a_terminal(*arguments: str, answer: str = "", columns: int = 80, **environment: str) -> tuple[int, str]:
    """Run a command line on a pseudo-terminal; returns its status, and all that the terminal was sent.

    It runs in a child that was forked, which spares it the imports.
    """
    pid, mine = pty.fork()
    if not pid:
        os.environ.update({"COLUMNS": str(columns), "TERM": "xterm-256color", **environment})
        _run_and_exit(list(arguments))
    os.write(mine, answer.encode())
    told = b""
    try:
        while part := os.read(mine, 65536):
            told += part
    except OSError:
        pass  # that is how Linux says that the other side has closed
    finally:
        os.close(mine)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), told.decode().replace("\r\n", "\n")


def _run_and_exit(arguments: list[str]) -> NoReturn:
    """Run a command line as a new process does, on the terminal and not on what pytest has put before it."""
    status = BUG
    try:
        sys.stdin, sys.stdout, sys.stderr = (open(number, mode) for number, mode in enumerate(("r", "w", "w")))  # noqa: SIM115
        status = run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


class TestTerminal:
    @pytest.mark.parametrize(("answer", "status", "limits"), [("n\n", 1, 0), ("y\n", 0, 2)])
    def test_limits_that_are_not_applied_are_said_to_be_unchanged(
        self, board: JobBoard, tmp_path: Path, answer: str, status: int, limits: int
    ) -> None:
        file = tmp_path / "limits.toml"
        file.write_text("[limits]\nname.import = { running = 2 }\nlane.stripe = { running = 1 }\n")
        found, told = on_a_terminal("limits", "apply", str(file), answer=answer)
        assert (found, len(list(board.limits))) == (status, limits)
        last = _COLOUR.sub("", told).strip().splitlines()[-1]
        unchanged = f"jobboard: nothing was changed; do it with: jobboard limits apply {file} --yes"
        assert last.endswith(unchanged if status else "2 limits changed")

    def test_a_wide_terminal_shows_whole_uuids(self, board: JobBoard) -> None:
        jobs = [board.post("a" * 100), board.post("b", priority="high")]
        status, told = on_a_terminal("ls", columns=200)
        assert status == 0
        assert all(job.uuid in told for job in jobs)
        header = _COLOUR.sub("", told).splitlines()[0].split()
        assert header == ["uuid", "name", "state", "priority", "created", "on"], "columns that say nothing are left out"
        assert " ago" in told

    def test_80_columns_show_every_value_whole_but_the_uuid(self, board: JobBoard) -> None:
        name, owner = "n" * 30, "worker-17@a-host-with-a-long-name.example"
        board.post("poll", key="p/0/600", priority="very_high")
        claimed = board.post(name, key="p/0/6000", max_attempts=3)
        board.claim(claimed, owner, 600)
        status, told = on_a_terminal("ls")
        lines = _COLOUR.sub("", told).splitlines()
        assert (status, max(map(len, lines)) <= 80, "…" in told) == (0, True, False)
        assert lines[0].split() == [
            "uuid", "name", "state", "priority", "key", "attempts", "owner", "created", "on",
        ]  # fmt: skip
        assert lines[1].split()[1:5] == ["poll", "UNCLAIMED", "VERY_HIGH", "p/0/600"]
        starts = {title: lines[0].index(title) for title in ("name", "state", "owner", "created")}
        assert "".join(line[starts["name"] : starts["state"]].strip() for line in lines[2:]) == name
        assert "".join(line[starts["owner"] : starts["created"]].strip() for line in lines[2:]) == owner
        end = lines[2].split()[0]
        assert (len(end), claimed.uuid.endswith(end)) == (8, True)
        assert claimed.uuid in on_a_terminal("show", end)[1]

    def test_a_narrow_terminal_still_shows_whole_states(self, board: JobBoard) -> None:
        board.post("poll", key="p/0/600", priority="very_high")
        _, told = on_a_terminal("ls", columns=40)
        lines = _COLOUR.sub("", told).splitlines()
        assert max(map(len, lines)) <= 40
        assert lines[1].split()[1:] == ["poll", "UNCLAIMED", "p/0/600"]

    @pytest.mark.parametrize("form", [[], ["--json"]])
    def test_nothing_that_a_job_or_a_schedule_carries_steers_a_terminal(self, board: JobBoard, form: list[str]) -> None:
        evil = "a\x9b31m\x9d0;owned\x9c\u202eb\x7fc\x1b[2J\u2066d"
        job = board.post("poll", key="k", details={"text": evil, evil: [evil]})
        board.abandon(board.claim_next("me", ["poll"])[0], "me", reason=evil, error=evil)
        board.schedules.add(Schedule("s", Every(hours=1), "poll", {"text": evil, evil: [evil]}))
        for command in (["show", job.uuid, "--details"], ["schedule", "show", "s", "--details"], ["ls"]):
            status, told = on_a_terminal(*command, *form, columns=300)
            told = _COLOUR.sub("", told)
            assert (status, [one for one in told if one != "\n" and not one.isprintable()]) == (0, [])

    def test_no_colours_when_they_are_not_wanted(self, uri: str) -> None:
        _, coloured = on_a_terminal("nonsense")
        _, plain = on_a_terminal("nonsense", NO_COLOR="1")
        assert "\x1b[31m" in coloured
        assert "\x1b[3" not in plain
        assert "No such command" in plain

    def test_an_empty_list_is_told(self, uri: str) -> None:
        assert on_a_terminal("trashed") == (0, "the trash is empty\n")

    @pytest.mark.parametrize(("answer", "status", "left"), [("y\n", 0, 0), ("\n", 1, 2)])
    def test_purge_asks(self, board: JobBoard, answer: str, status: int, left: int) -> None:
        for _ in range(2):
            board.trash(board.post("a"), by="me")
        found, told = on_a_terminal("purge", "--all", answer=answer)
        assert "purge 2 jobs named 'a'? [y/N]" in told
        assert (found, len(list(board.trashed()))) == (status, left)
        assert ("nothing was changed" in told) == bool(left)

    def test_restoring_one_does_not_ask(self, board: JobBoard) -> None:
        job = board.post("a")
        board.trash(job, by="me")
        status, told = on_a_terminal("restore", job.uuid)
        assert (status, told.endswith("1 job named 'a' restored\n")) == (0, True)


class TestPipe:
    def test_lines_have_the_same_columns_always(self, jobboard: Run, board: JobBoard) -> None:
        board.post("a b", key="k")
        header, line = jobboard("ls").splitlines()
        assert header.split("\t") == [
            "uuid",
            "name",
            "state",
            "priority",
            "key",
            "attempts",
            "owner",
            "created_on",
            "waits_for",
        ]
        assert line.split("\t")[1:7] == ["a b", "UNCLAIMED", "NORMAL", "k", "0", "-"]

    @pytest.mark.parametrize(
        "command",
        ["ls", "trashed", "trashed --groups", "owners", "entities", "limits", "lanes", "schedule ls", "book ls"],
    )
    def test_nothing_is_said_in_one_line(self, jobboard: Run, board: JobBoard, command: str) -> None:
        told = jobboard(*command.split())
        assert (told.count("\n"), "\t" in told, len(told) > 5) == (1, False, True)
        assert as_json(jobboard(*command.split(), "--json")) == []

    def test_a_reason_stays_in_its_cell(self, jobboard: Run, board: JobBoard) -> None:
        board.trash(board.post("a"), by="me", reason="one\ttwo\nthree\r\x1b[2J")
        assert jobboard("trashed").splitlines()[1].split("\t")[5] == "one two three\\r\\x1b[2J"

    def test_a_cut_list_says_so(self, jobboard: Run, board: JobBoard) -> None:
        board.post_many([Posting("a")] * 101)
        done = process("ls")
        assert (done.stdout.count("\n"), "--limit 0" in done.stderr) == (101, True)
        assert jobboard("ls", "--limit", "0").count("\n") == 102
        assert jobboard("ls", "--limit", "100").count("\n") == 101, "who sets a limit knows of it"

    def test_no_colours_in_a_pipe(self, uri: str, board: JobBoard) -> None:
        board.post("a")
        done = process("release", board.post("b").uuid, env={**os.environ, "TERM": "xterm-256color"})
        assert (done.returncode, "\x1b" in done.stdout + done.stderr) == (1, False)

    def test_names_that_the_locale_cannot_show(self, uri: str, board: JobBoard) -> None:
        board.post("größe", key="鍵")
        done = process("ls", env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
        assert (done.returncode, done.stderr) == (0, "")
        assert "gr\\xf6\\xdfe" in done.stdout


class TestBrokenOutput:
    @pytest.fixture(autouse=True)
    def buffered(self, board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
        board.post("a")
        monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)

    def test_a_full_disk(self) -> None:
        with open("/dev/full", "w") as full:
            done = process("ls", stdout=full)
        assert (done.returncode, done.stderr) == (1, "jobboard: standard output: No space left on device\n")

    def test_a_reader_that_has_gone(self) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        done = process("ls", stdout=writing)
        os.close(writing)
        assert (done.returncode, done.stderr) == (1, "")

    def test_no_output_at_all(self) -> None:
        done = subprocess.run(
            f"{sys.executable} -m jobboard ls >&-", shell=True, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


class TestGlobalOptions:
    def test_they_may_stand_at_either_end(
        self, jobboard: Run, board: JobBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        uri = os.environ["JOBBOARD_URI"]
        board.post("a")
        monkeypatch.setenv("JOBBOARD_URI", "sqlite:////no/such/directory/jobs.db")
        monkeypatch.setenv("JOBBOARD_NAME", "another")
        before = as_json(jobboard("--board", uri, "--name", "test", "--json", "ls"))
        after = as_json(jobboard("ls", "--board", uri, "--name", "test", "--json"))
        assert before == after
        assert [row["name"] for row in after] == ["a"]
        with fetch("another", uri):
            pass
        assert as_json(jobboard("ls", "--board", uri, "--json")) == [], "boards of two names share nothing"

    @pytest.mark.parametrize("arguments", [["post", "a"], ["ls"], ["conductor", "helpers.work:handlers"]])
    def test_a_board_within_this_process_is_refused(self, jobboard: Run, arguments: list[str]) -> None:
        assert "sqlite:///" in jobboard("--board", "memory://", *arguments, status=2)

    def test_a_bug_is_one_line_too(self, jobboard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("boom")

        monkeypatch.setattr("jobboard.configuration.fetch", fail)
        assert "this is a bug: RuntimeError('boom')" in jobboard("ls", status=70)


def test_details_nested_too_deep_are_refused(uri: str) -> None:
    done = process("post", "a", "--details", "-", input='{"a":' * 100_000)
    assert (done.returncode, done.stderr.count("\n"), "Traceback" in done.stderr) == (2, 1, False)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def", "part.py, line 1: SyntaxError: invalid syntax; "),
        ("import os\nimport no_such_module_at_all", "part.py, line 2: No module named 'no_such_module_at_all'; "),
        ("def f():\n    1 / 0\nf()", "part.py, line 3: ZeroDivisionError('division by zero'); "),
    ],
)
def test_handlers_that_fail_to_import_are_one_line_with_file_and_line(
    jobboard: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "part.py").write_text(code)
    (tmp_path / "broken_work.py").write_text("\nimport part")
    assert jobboard("conductor", "broken_work:handlers", status=USAGE) == (
        f"jobboard: broken_work can't be imported: {tmp_path}/{told}"
        "python -c 'import broken_work' shows the whole traceback (see jobboard conductor --help)\n"
    )


def test_values_as_people_read_them() -> None:
    assert [shown(value) for value in (None, True, False, 12345.678, ["a", 1], {"k": "ü"})] == [
        "-", "yes", "no", "12345.7", "a, 1", '{"k": "ü"}',
    ]  # fmt: skip
    assert (count(0, "job"), count(1, "job"), count(2, "job")) == ("0 jobs", "1 job", "2 jobs")
    assert safe("a\u202eb\x9bc\ud800\u2028d\u2029") == "a\\u202eb\\x9bc\\ud800\\u2028d\\u2029"


def test_the_end_of_a_command_looks_through_nothing() -> None:
    code = "import atexit, gc, jobboard.cli; atexit.register(lambda: print(len(gc.get_objects()))); jobboard.cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert int(done.stdout.split()[-1]) < 1000
