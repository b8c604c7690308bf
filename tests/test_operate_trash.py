"""The trash: what is one kind of reason, and which jobs a command or a page means by it."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest
from helpers.command_line import Run, as_json
from helpers.console import asking, links_of, text_of
from helpers.counted_requests import count_requests

from jobboard import JobBoard, JobState, Posting
from jobboard.cli.app import run
from jobboard.operate.selecting import Selection
from jobboard.operate.trash import kind_of_reason
from jobboard.testing import clock_of, memory_board

pytest_plugins = ("helpers.command_fixtures",)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("requests.exceptions.HTTPError: 404\nmore", "requests.exceptions.HTTPError: #"),
        ("KeyError: 'x'", "KeyError: 'x'"),
        ('KeyError: "it\'s"', 'KeyError: "it\'s"'),
        ("KeyError: 'order 4711'", "KeyError: 'order #'"),
        ("KeyError: '019ad0c4-7d1e-7a3b-8c11-0242ac120002'", "KeyError: '#'"),
        ("KeyError: b'iban'", "KeyError: b'iban'"),
        ("KeyError: 17", "KeyError: #"),
        ("KeyError: ('vat', 7)", "KeyError: (#, #)"),
        ("KeyError: 'a' is not 'b'", "KeyError: # is not #"),
        ("'iban'", "#"),
        ("UnicodeError: b'\\xff' in file 7", "UnicodeError: # in file #"),
        ("RuntimeError: can't reach host 'db-1' at 10.0.0.1:5432", "RuntimeError: can't reach host # at #"),
        ("it's 'a' and isn't 'b'", "it's # and isn't #"),
        ("RuntimeError: no order 019ad0c4-7d1e-7a3b-8c11-0242ac120002", "RuntimeError: no order #"),
        ("RuntimeError: no order aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "RuntimeError: no order #"),
        ("<Door object at 0x7F8812ab> of 3f2a1b", "<Door object at #> of #"),
        ("a decade of facade", "a decade of facade"),
        ("Http404Error: page 7", "Http404Error: page #"),
        ("timed out after 3.5 s, 1,000 times", "timed out after # s, # times"),
        ("all 3 attempts are used up; the last: OSError: [Errno 28] disk full", "OSError: [Errno #] disk full"),
        ("ValueError", "ValueError"),
        ("OSError: \u65e5 'x' 12", "OSError: \u65e5 # #"),
        ("red \x1b[31m alarm", "red #[#m alarm"),
        (" \n", "no reason"),
        (None, "no reason"),
    ],
)
def test_what_reasons_of_one_kind_have_in_common(reason: str | None, kind: str) -> None:
    assert kind_of_reason(reason) == kind


def test_a_kind_has_a_bound_and_long_reasons_differ_in_what_they_say_first() -> None:
    long = "E: " + "x" * 300
    assert kind_of_reason(long) == kind_of_reason(f"{long} and more") == long[:200]
    quoted = ["E: " + f"'{'q' * number}' is bad" for number in (1, 300, 3000)]
    assert {kind_of_reason(reason) for reason in quoted} == {"E: # is bad"}


class TestGroups:
    def test_a_group_is_restored_by_its_kind_and_nothing_else_is(self, jobboard: Run, board: JobBoard) -> None:
        for number in range(3):
            for reason in (f"RuntimeError: host 'h{number}' is gone", f"RuntimeError: disk {number} is full"):
                board.trash(board.post("mail"), by="me", reason=reason)
        board.trash(board.post("sms"), by="me", reason="RuntimeError: host 'h7' is gone")
        groups = as_json(jobboard("trashed", "--groups", "--json"))
        assert [(group["name"], group["reason_kind"], group["jobs"]) for group in groups] == [
            ("mail", "RuntimeError: disk # is full", 3),
            ("mail", "RuntimeError: host # is gone", 3),
            ("sms", "RuntimeError: host # is gone", 1),
        ]
        table = jobboard("trashed", "--groups", "--reason", "gone", "--limit", "2").splitlines()
        assert [line.split("\t")[:3] for line in table[1:]] == [["mail", "RuntimeError: host # is gone", "2"]]
        chosen = ("--job-name", "mail", "--reason-kind", groups[1]["reason_kind"])
        assert as_json(jobboard("restore", *chosen, "--yes", "--json")) == {"restored": 3, "refused": []}
        left = [(job.name, job.record.reason) for job in board.iterjobs(states={JobState.TRASHED})]
        assert sorted(left) == [
            *(("mail", f"RuntimeError: disk {number} is full") for number in range(3)),
            ("sms", "RuntimeError: host 'h7' is gone"),
        ]

    def test_of_key_errors_those_of_one_key_are_restored(self, jobboard: Run, board: JobBoard) -> None:
        for key in ("vat_rate", "iban", "name"):
            for _ in range(2):
                board.trash(board.post("mail"), by="me", reason=f"KeyError: '{key}'")
        groups = as_json(jobboard("trashed", "--groups", "--json"))
        assert [group["reason_kind"] for group in groups] == [
            "KeyError: 'iban'",
            "KeyError: 'name'",
            "KeyError: 'vat_rate'",
        ]
        assert as_json(jobboard("restore", "--reason-kind", "KeyError: 'iban'", "--yes", "--json"))["restored"] == 2
        left = [job.record.reason for job in board.iterjobs(states={JobState.TRASHED})]
        assert sorted(map(str, left)) == ["KeyError: 'name'"] * 2 + ["KeyError: 'vat_rate'"] * 2

    def test_of_a_large_trash_a_bounded_part_is_grouped(
        self, board: JobBoard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("jobboard.cli.operating.MAX_READ", 2)
        for job in board.post_many([Posting("a")] * 3):
            board.trash(job, by="me", reason="bad")
        assert run(["trashed", "--groups"]) == 0
        told = capsys.readouterr()
        assert (told.out.splitlines()[1].split("\t")[2], "there are more" in told.err) == ("2", True)


def trash_one_after_the_other(board: JobBoard, number: int, name: str = "a") -> list[str]:
    jobs = board.post_many([Posting(name, priority="high" if each % 2 else "low") for each in range(number)])
    for job in jobs:
        board.trash(job, by="me", reason="bad")
        # Moments are what orders them; the clock goes on between calls, too.
        clock_of(board).move(3600)
    return [job.uuid for job in jobs]


class TestNewest:
    def test_what_came_last_comes_first_and_a_bounded_part_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with memory_board() as board:
            uuids = trash_one_after_the_other(board, 9)
            trash = Selection(states={JobState.TRASHED})
            assert [job.uuid for job in trash.newest(board)] == uuids[::-1]
            assert [job.uuid for job in replace(trash, limit=3).newest(board)] == uuids[:-4:-1]
            stops: list[int] = []
            # In the order of claims those of the high priority come first, which are the odd ones.
            seen = replace(trash, limit=3, scan=4).newest(board, stops.append)
            assert ([job.uuid for job in seen], stops) == ([uuids[7], uuids[5], uuids[3]], [4])
            assert len(replace(trash, scan=9).newest(board, stops.append)) == 9
            assert stops == [4]
            board.post_many([Posting("b") for _ in range(3000)])
            for job in list(board.iterjobs(names=["b"])):
                board.trash(job, by="me")
            sent = count_requests(board, monkeypatch)
            assert len(replace(trash, limit=5, scan=1000).newest(board)) == 5
            assert sent.count("page") == 5, "10, 50, 250, 500 and 500 jobs"

    def test_by_age(self) -> None:
        with memory_board() as board:
            uuids = trash_one_after_the_other(board, 5)

            def found(**ages: float) -> list[str]:
                return [job.uuid for job in Selection(states={JobState.TRASHED}, **ages).newest(board)]

            assert found(newer_than=9_000) == [uuids[4], uuids[3]]
            assert found(older_than=9_000) == [uuids[2], uuids[1], uuids[0]]
            assert found(newer_than=16_200, older_than=9_000) == [uuids[2], uuids[1]]
            assert found(newer_than=0) == []
            with pytest.raises(ValueError, match="newer_than"):
                Selection(newer_than=-1)

    def test_the_command(self, board: JobBoard, capsys: pytest.CaptureFixture[str]) -> None:
        def told(*arguments: str, status: int = 0) -> tuple[list[str], str]:
            assert run(["trashed", *arguments, *(["--json"] if not status else [])]) == status
            out, err = capsys.readouterr()
            return [row["uuid"] for row in as_json(out)] if out else [], err

        jobs = board.post_many([Posting("a", priority="high" if number % 2 else "low") for number in range(103)])
        for job in jobs:
            board.trash(job, by="me", reason="bad")
        moments = {job.uuid: board.get(job.uuid).record.last_modified for job in jobs}
        newest, warned = told("--newest")
        assert ([moments[uuid] for uuid in newest], "--limit 0" in warned) == (
            sorted(moments.values(), reverse=True)[:100], True
        )  # fmt: skip
        assert (len(told()[0]), len(told("--limit", "0")[0])) == (100, 103)
        assert told("--newest", "--limit", "3") == (newest[:3], "")
        seen, warned = told("--newest", "--limit", "3", "--scan", "50")
        assert (len(seen), "the first 50 jobs only" in warned) == (3, True)
        assert told("--newer-than", "1h", "--limit", "0")[0] == told("--limit", "0")[0]
        assert told("--older-than", "1h") == ([], "")
        assert "give one of them" in told("--newest", "--groups", status=2)[1]
        assert f"--after {newest[-1]} lists the next ones" in told("--newest")[1]
        pages, place = list[str](), []
        while page := told("--newest", "--limit", "40", *place)[0]:
            pages, place = pages + page, ["--after", page[-1]]
        assert pages == told("--newest", "--limit", "0")[0]
        assert "--newest" in told("--after", newest[0], status=2)[1]
        board.restore(newest[0])
        assert "not in the trash any more" in told("--newest", "--after", newest[0], status=2)[1]


def test_the_console_shows_the_newest_of_the_trash() -> None:
    with memory_board() as board:
        uuids = trash_one_after_the_other(board, 60)
        ask = asking({"shop": board})
        (link,) = [link for link in links_of(ask.get("/b/shop/jobs?state=trashed&name=a")) if "order=newest" in link]
        page = ask.get(link)
        assert list(re.findall(r'<tr id="job-([^"]*)"', page.text)) == uuids[:9:-1]
        assert "1-50 of 60, those that came into the trash last. " in text_of(page)
        (further,) = re.findall(r'rel="next" href="([^"]*)"', page.text)
        further = html.unescape(further)
        board.restore(uuids[10])
        page = ask.get(further)
        assert list(re.findall(r'<tr id="job-([^"]*)"', page.text)) == uuids[9::-1]
        assert "51-60 of 60, those that came into the trash last before that" in text_of(page)
        assert 'rel="next"' not in page.text
        assert "/b/shop/jobs?order=newest&state=trashed&name=a" in links_of(page)
        assert ask.get("/b/shop/jobs?state=trashed&order=newest&after=x").status_code == 400
        newer = ask.get("/b/shop/jobs?state=trashed&newer=9000s")
        assert set(re.findall(r'<tr id="job-([^"]*)"', newer.text)) == set(uuids[-2:])
        assert "newer than 9000s" in text_of(newer)
        assert ask.get("/b/shop/jobs?state=trashed&newer=x").status_code == 400
