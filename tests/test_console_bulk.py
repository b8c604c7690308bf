"""The pages about many jobs at once: bulk actions, and the trash."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from helpers.console import links_of, text_of
from helpers.console_jobs import ask_as, board, on_both, preview, trash, uuids_in

from jobboard import Job, JobBoard, JobState, Posting
from jobboard.console import RIGHTS
from jobboard.console.pages import bulk

__all__ = ["board"]


def lives(board: JobBoard) -> set[str]:
    return {job.uuid for job in board.iterjobs()}


@on_both
class TestBulk:
    PATH = "/b/jobs/bulk?action=restore&state=trashed&name=mail"

    @pytest.fixture
    def broken(self, board: JobBoard) -> list[Job]:
        jobs = board.post_many([Posting("mail", key=f"k/{n}") for n in range(4)])
        return [trash(board, job) for job in jobs]

    def test_it_says_how_many_of_what_before_and_what_became_of_them(self, board: JobBoard, broken: list[Job]) -> None:
        other, living = trash(board, board.post("other")), board.post("mail", key="k/3")
        told: list[Any] = []
        ask = ask_as(board, "restore", on_action=lambda *call: told.append(call))
        page = ask.get(self.PATH)
        assert "Restore 4 jobs named 'mail' ?" in text_of(page)
        assert lives(board) == {living.uuid}
        page = ask.post(self.PATH, preview(ask, self.PATH))
        said = text_of(page)
        assert "3 of 4 jobs named 'mail' restored" in said
        assert f"job {broken[3].uuid} (mail:k/3) stays in the trash: job {living.uuid} (mail:k/3), " in said
        assert "/b/jobs/jobs?state=trashed&name=mail" in links_of(page)
        assert lives(board) == {job.uuid for job in broken[:3]} | {living.uuid}
        assert board.get(other.uuid).record.state is JobState.TRASHED
        assert told == [("ann", "restore", [job.uuid for job in broken[:3]])]

    def test_what_came_after_the_look_is_left_alone(self, board: JobBoard, broken: list[Job]) -> None:
        ask = ask_as(board, "purge")
        path = self.PATH.replace("restore", "purge")
        form = preview(ask, path)
        later = trash(board, board.post("mail"))
        assert ask.post(path, form).status_code == 200
        assert [job.uuid for job in board.trashed()] == [later.uuid]

    def test_it_needs_the_right_and_the_fields_of_its_form(self, board: JobBoard, broken: list[Job]) -> None:
        ask = ask_as(board, *(right for right in RIGHTS if right != "restore"))
        assert [ask.get(self.PATH).status_code, ask.post(self.PATH, {"at": "0", "number": "4"}).status_code] == [
            403,
            403,
        ]
        ask = ask_as(board, "restore")
        form = preview(ask, self.PATH)
        for wrong in ({}, form | {"number": "0"}, form | {"number": "10001"}, form | {"at": "x"}, form | {"at": "nan"}):
            assert ask.post(self.PATH, wrong).status_code in (400, 409)
        assert ask.post(self.PATH, form | {"at": "1.0"}).status_code == 409
        assert ask.post(self.PATH, form, headers={}).status_code == 403
        assert ask.get("/b/jobs/bulk?action=explode&name=mail").status_code == 400
        assert ask.get("/b/jobs/bulk?action=restore&state=claimed&name=mail").status_code == 400
        assert lives(board) == set()

    def test_it_is_bounded_and_goes_on(
        self, board: JobBoard, broken: list[Job], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ask = ask_as(board, "restore")
        monkeypatch.setattr(bulk, "MOST", 3)
        page = ask.get(self.PATH)
        assert "Restore 3 jobs named 'mail', and there may be more: at most 3 at a time ?" in text_of(page)
        form = preview(ask, self.PATH)
        monkeypatch.setattr(bulk, "_BUDGET", -1.0)
        page = ask.post(self.PATH, form)
        assert "3 are left: the time for one request was over" in text_of(page)
        monkeypatch.setattr(bulk, "_BUDGET", 60.0)
        assert "3 jobs named 'mail' restored" in text_of(ask.post(self.PATH, form))
        assert len(lives(board)) == 3
        ask.post(self.PATH, preview(ask, self.PATH))
        assert len(lives(board)) == 4
        assert "No job fits" in text_of(ask.get(self.PATH))

    @pytest.mark.parametrize("action", ["release", "cancel", "trash", "run_now", "purge"])
    def test_every_action_works_on_many(self, board: JobBoard, action: str) -> None:
        jobs = board.post_many([Posting("mail", delay=100.0 if action == "run_now" else None) for _ in range(3)])
        for job in jobs:
            if action == "release":
                board.claim(job, "worker")
            if action == "purge":
                trash(board, job)
        states = {"release": "claimed", "run_now": "delayed", "purge": "trashed"}
        path = f"/b/jobs/bulk?action={action}&name=mail&state={states.get(action, 'unclaimed')}"
        ask = ask_as(board, action)
        page = ask.post(path, preview(ask, path) | {"reason": "a note"})
        assert (page.status_code, "3 jobs named 'mail'" in text_of(page)) == (200, True)
        if action not in ("purge", "cancel"):
            for job in jobs:
                line = board.get(job.uuid).history[-1]
                assert "ann" in f"{line.who} {line.reason}"
                assert "a note" in f"{line.reason}"


@on_both
class TestChosen:
    """Two clicks on a list must not change all of a board."""

    def test_without_a_filter_nothing_is_done_to_all(self, board: JobBoard) -> None:
        jobs = board.post_many([Posting("mail") for _ in range(3)])
        ask = ask_as(board, *RIGHTS)
        for query in ("", "state=unclaimed", "state=unclaimed&state=delayed"):
            page = ask.get(f"/b/jobs/jobs?{query}")
            assert not any("/bulk?" in link for link in links_of(page)), query
            path = f"/b/jobs/bulk?action=cancel&{query}"
            form = preview(ask, "/b/jobs/bulk?action=cancel&name=mail")
            for asked in (ask.get(path), ask.post(path, form)):
                assert (asked.status_code, "tick them" in text_of(asked)) == (400, True)
        assert lives(board) == {job.uuid for job in jobs}
        assert any("action=cancel" in link for link in links_of(ask.get("/b/jobs/jobs?name=mail")))

    def test_those_that_are_ticked_are_changed_and_no_others(self, board: JobBoard) -> None:
        jobs = board.post_many([Posting("mail") for _ in range(3)])
        delayed, broken = board.post("mail", delay=1000), trash(board, board.post("mail"))
        told: list[Any] = []
        ask = ask_as(board, "cancel", "run_now", on_action=lambda *call: told.append(call))
        page = ask.get("/b/jobs/jobs?name=mail")
        assert page.text.count('name="job"') == 4
        assert 'name="job"' not in ask_as(board).get("/b/jobs/jobs").text
        ticked = "".join(f"&job={job.uuid}" for job in (jobs[0], jobs[1], delayed, broken))
        path = f"/b/jobs/bulk?ticked=yes&name=mail&action=run_now{ticked}"
        assert "Run now 1 job named 'mail' ?" in text_of(ask.get(path)), "the others can't be run now"
        path = path.replace("run_now", "cancel")
        page = ask.get(path)
        assert "Cancel 3 jobs named 'mail' ?" in text_of(page)
        done = ask.post(path, preview(ask, path))
        assert "3 jobs named 'mail' cancelled" in text_of(done)
        assert "/b/jobs/jobs?name=mail" in links_of(done)
        assert lives(board) == {jobs[2].uuid}
        assert sorted(told[0][2]) == sorted(job.uuid for job in (jobs[0], jobs[1], delayed))
        assert "No job fits" in text_of(ask.get(path))

    def test_who_ticks_none_is_told(self, board: JobBoard) -> None:
        board.post("mail")
        ask = ask_as(board, "cancel")
        none = ask.get("/b/jobs/bulk?ticked=yes&state=unclaimed&name=mail&action=cancel")
        assert (none.status_code, "Tick the jobs first" in text_of(none)) == (200, True)
        assert "state=unclaimed&name=mail" in str(none.url)
        assert ask.get("/b/jobs/bulk?ticked=yes&action=cancel&job=x").status_code == 400
        many = "".join(f"&job=00000{n:03}-0000-0000-0000-000000000000" for n in range(101))
        assert ask.get(f"/b/jobs/bulk?ticked=yes&action=cancel{many}").status_code == 400

    def test_of_many_jobs_one_types_how_many(self, board: JobBoard) -> None:
        board.post_many([Posting("mail") for _ in range(1001)])
        ask, path = ask_as(board, "cancel"), "/b/jobs/bulk?action=cancel&name=mail"
        form = preview(ask, path)
        assert "To go on, type 1,001" in text_of(ask.get(path))
        for typed in ({}, {"typed": "1000"}, {"typed": ""}):
            page = ask.post(path, form | typed)
            assert (page.status_code, "Nothing was changed" in text_of(page)) == (400, True)
        assert len(lives(board)) == 1001
        assert "1001 jobs named 'mail' cancelled" in text_of(ask.post(path, form | {"typed": " 1,001 "}))
        assert lives(board) == set()
        board.post_many([Posting("mail") for _ in range(100)])
        assert "To go on" not in text_of(ask.get(path))
        assert "100 jobs named 'mail' cancelled" in text_of(ask.post(path, preview(ask, path)))


class TestTrash:
    @on_both
    def test_it_is_grouped_by_name_and_kind_of_reason(self, board: JobBoard) -> None:
        for number in range(3):
            trash(board, board.post("mail"), f"smtplib.SMTPError: {number} refused 'a{number}@example.org'")
            trash(board, board.post("mail"), f"smtplib.SMTPError: {number} is too busy")
        trash(board, board.post("mail"), "host 7 is gone")
        trash(board, board.post("mail"), "host 8 is gone")
        job = board.post("resize", max_attempts=1)
        board.claim(job, "w")
        board.abandon(job, "w", reason="OSError: [Errno 28] disk full")
        page = ask_as(board, "restore").get("/b/jobs/trash")
        said = text_of(page)
        assert "9 jobs in 4 groups" in said
        for group in (
            "mail smtplib.SMTPError: # refused # 3",
            "mail smtplib.SMTPError: # is too busy 3",
            "mail host # is gone 2",
            "resize OSError: [Errno #] disk full 1",
        ):
            name, _, rest = group.partition(" ")
            kind, _, jobs = rest.rpartition(" ")
            assert re.search(rf"{name} {re.escape(kind)} (\S.* )?{jobs} {name}: {re.escape(kind)}", said), group
        counts = {
            httpx.URL(link).params["kind"]: len(uuids_in(ask_as(board).get(link)))
            for link in links_of(page)
            if "/jobs?state" in link
        }
        assert counts == {
            "smtplib.SMTPError: # refused #": 3,
            "smtplib.SMTPError: # is too busy": 3,
            "host # is gone": 2,
            "OSError: [Errno #] disk full": 1,
        }
        assert "1 job in 1 group." in text_of(ask_as(board).get("/b/jobs/trash?name=resize"))
        assert "Restore all 3 …" in said
        assert "Restore it …" in said
        assert "Purge" not in said
        assert not any("action=purge" in link for link in links_of(page))
        both = ask_as(board, "restore", "purge").get("/b/jobs/trash").text
        row = both[both.index("smtplib") :].partition("</tr>")[0]
        between = row[row.index("action=restore") : row.index("action=purge")]
        assert '<td class="row-actions bare apart"' in between, "one is pressed in a hurry"
        assert 'class="button danger" href' in row

    @on_both
    def test_restoring_a_group_restores_exactly_that_group(self, board: JobBoard) -> None:
        refused = [trash(board, board.post("mail"), f"Refused: host '{number}' & <{number}>") for number in range(3)]
        others = [trash(board, board.post("mail"), f"Refused: port {number} & <{number}>") for number in range(3)]
        others.append(trash(board, board.post("sms"), "Refused: host '7' & <7>"))
        ask = ask_as(board, "restore")
        links = [link for link in links_of(ask.get("/b/jobs/trash")) if "action=restore" in link and "host" in link]
        (link,) = [link for link in links if "name=mail" in link]
        assert ask.post(link, preview(ask, link)).status_code == 200
        assert {job.uuid for job in board.iterjobs(states={JobState.TRASHED})} == {job.uuid for job in others}
        assert all(job.state is JobState.UNCLAIMED for job in refused)

    def test_of_a_large_trash_a_bounded_part_is_read(self, board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobboard.operate.trash.MAX_READ", 2)
        for _ in range(3):
            trash(board, board.post("mail"))
        assert "2 jobs in 1 group; there are more" in text_of(ask_as(board).get("/b/jobs/trash"))
        assert "Restore all …" in text_of(ask_as(board, "restore").get("/b/jobs/trash"))

    def test_an_empty_one_says_so(self, board: JobBoard) -> None:
        assert "The trash is empty." in text_of(ask_as(board).get("/b/jobs/trash"))
