"""The trash: what is one kind of reason, and which jobs a command or a page means by it."""

from __future__ import annotations

import pytest
from helpers.command_line import Run, as_json

from jobboard import JobBoard, JobState, Posting
from jobboard.cli.app import run
from jobboard.operate.trash import kind_of_reason

pytest_plugins = ("helpers.command_fixtures",)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("requests.exceptions.HTTPError: 404\nmore", "requests.exceptions.HTTPError: #"),
        ("KeyError: 'x'", "KeyError: #"),
        ('KeyError: "it\'s"', "KeyError: #"),
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

    def test_of_a_large_trash_a_bounded_part_is_grouped(
        self, board: JobBoard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("jobboard.cli.operating.MAX_READ", 2)
        for job in board.post_many([Posting("a")] * 3):
            board.trash(job, by="me", reason="bad")
        assert run(["trashed", "--groups"]) == 0
        told = capsys.readouterr()
        assert (told.out.splitlines()[1].split("\t")[2], "there are more" in told.err) == ("2", True)
