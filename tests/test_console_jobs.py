"""The pages about jobs: what they list, show and do, and what they refuse."""

from __future__ import annotations

import re
from html import unescape

import httpx
import pytest
from helpers.console import links_of, text_of
from helpers.console_jobs import ask_as, board, next_of, on_both, preview, trash, uuids_in

from jobboard import Entity, Every, Job, JobBoard, JobState, Posting, Schedule
from jobboard.backends.rows import Abandonment, Fence
from jobboard.board import client_of
from jobboard.console import RIGHTS
from jobboard.operate.sampling import Sampler

__all__ = ["board"]


class TestList:
    @pytest.fixture
    def jobs(self, board: JobBoard) -> dict[str, Job]:
        jobs = {
            "first": board.post("mail", key="order/7", details={"order": {"id": 4711}}),
            "second": board.post("resize", key="order/8"),
            "delayed": board.post("mail", delay=1000),
            "claimed": board.post("mail"),
            "broken": board.post("resize"),
            "fired": board.schedules.add(Schedule("nightly", Every(hours=1), "c"))
            and board.schedules.fire_now("nightly"),
        }
        board.claim(jobs["claimed"], "worker@host-7:1")
        trash(board, jobs["broken"], "OSError: disk full")
        return jobs

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("", ["first", "second", "fired"]),
            ("name=", ["first", "second", "delayed", "claimed", "fired"]),
            ("state=trashed", ["broken"]),
            ("state=delayed&state=claimed", ["delayed", "claimed"]),
            ("name=mail", ["first", "delayed", "claimed"]),
            ("key_prefix=order/", ["first", "second"]),
            ("key=order/8", ["second"]),
            ("key_contains=er/8", ["second"]),
            ("detail=order.id=4711", ["first"]),
            ("owner=worker@host-7", ["claimed"]),
            ("schedule=nightly", ["fired"]),
            ("older=1h", []),
            ("state=trashed&kind=OSError: disk full", ["broken"]),
            ("state=trashed&reason=disk", ["broken"]),
            ("state=trashed&kind=ValueError", []),
            ("name=none", []),
        ],
    )
    def test_filters_are_in_the_url_and_in_every_link(
        self, board: JobBoard, jobs: dict[str, Job], query: str, found: list[str]
    ) -> None:
        page = ask_as(board, *RIGHTS).get(f"/b/jobs/jobs?{query}")
        names = {job.uuid: name for name, job in jobs.items()}
        assert sorted(names[uuid] for uuid in uuids_in(page)) == sorted(found)
        given = set(httpx.QueryParams(query).multi_items())
        for link in links_of(page):
            if "/bulk?" in link:
                assert given <= set(httpx.URL(link).params.multi_items())

    def test_a_part_of_a_uuid_is_enough(self, board: JobBoard, jobs: dict[str, Job]) -> None:
        uuid = jobs["broken"].uuid
        for part in (uuid[-8:], uuid[:18]):
            for path in (f"/b/jobs/jobs?uuid={part}&state=trashed", f"/b/jobs/jobs?q={part}"):
                assert uuids_in(ask_as(board).get(path)) == [uuid]

    def test_a_search_finds_what_it_can_be(self, board: JobBoard, jobs: dict[str, Job]) -> None:
        ask = ask_as(board)
        for text in (jobs["first"].uuid, jobs["first"].uuid.upper(), "mail:order/7"):
            assert ask.get("/b/jobs/jobs", params={"q": text}).url.path.endswith(jobs["first"].uuid)
        assert len(uuids_in(ask.get("/b/jobs/jobs?q=mail"))) == 3
        assert ask.get("/b/jobs/jobs?q=order/8").url.path.endswith(jobs["second"].uuid)
        assert sorted(uuids_in(ask.get("/b/jobs/jobs?q=order/"))) == sorted(
            jobs[name].uuid for name in ("first", "second")
        )
        assert "No jobs" in text_of(ask.get("/b/jobs/jobs?q=:none:"))

    def test_a_key_is_found_behind_any_number_of_jobs_and_what_was_typed_stays(self, board: JobBoard) -> None:
        board.post_many(Posting("mail", key=f"{n}") for n in range(60))
        wanted = [board.post(name, key="tenant-42/nov") for name in ("report", "invoice")]
        alone = board.post("report", key="tenant-43/nov")
        ask = ask_as(board)
        both = ask.get("/b/jobs/jobs?q=tenant-42/nov")
        assert sorted(uuids_in(both)) == sorted(job.uuid for job in wanted)
        assert 'name="q" id="find" value="tenant-42/nov"' in both.text
        assert ask.get("/b/jobs/jobs?q=tenant-43/nov").url.path.endswith(alone.uuid)

    def test_what_ended_last_comes_first(self, board: JobBoard) -> None:
        jobs = [board.post("mail", priority=priority) for priority in ("low", "high", "normal")]
        for job in jobs:
            board.claim(job, "w")
            board.consume(job, "w")
        page = ask_as(board).get("/b/jobs/jobs?state=complete")
        assert uuids_in(page) == [job.uuid for job in jobs[::-1]]
        by_claims = ask_as(board).get("/b/jobs/jobs?state=complete&order=claims")
        assert uuids_in(by_claims) == [jobs[1].uuid, jobs[2].uuid, jobs[0].uuid]

    def test_numbers_are_told_by_state(self, board: JobBoard, jobs: dict[str, Job]) -> None:
        said = text_of(ask_as(board).get("/b/jobs/jobs"))
        assert "unclaimed 3 claimed 1 delayed 1 trashed 1 complete all on the board 5" in said
        mail = text_of(ask_as(board).get("/b/jobs/jobs?name=mail"))
        assert "unclaimed 1 claimed 1 delayed 1 trashed 0 complete all on the board 3" in mail

    def test_what_is_next_comes_first(self, board: JobBoard) -> None:
        board.post("b", delay=1000, priority="very_high")
        jobs = [board.post("a", priority=priority) for priority in ("low", "high", "normal")]
        page = ask_as(board).get("/b/jobs/jobs")
        assert uuids_in(page) == [jobs[1].uuid, jobs[2].uuid, jobs[0].uuid]
        assert "The job that is claimed next comes first" in text_of(page)
        for job in jobs:
            board.cancel(job)
        assert "No job waits to be claimed." in text_of(ask_as(board).get("/b/jobs/jobs"))

    def test_each_filter_is_a_chip_that_can_be_removed(self, board: JobBoard, jobs: dict[str, Job]) -> None:
        page = ask_as(board).get("/b/jobs/jobs?state=trashed&kind=OSError: disk full&name=resize")
        chips = {
            re.sub(r"<[^>]*>", "", text): httpx.QueryParams(httpx.URL(unescape(link)).query)
            for link, text in re.findall(r'<a class="chip" href="([^"]*)">(.*?)</a>', page.text)
        }
        assert {chip: sorted(query.multi_items()) for chip, query in chips.items()} == {
            "kind of reason OSError: disk full ×: remove this filter": [("name", "resize"), ("state", "trashed")],
            "name resize ×: remove this filter": [("kind", "OSError: disk full"), ("state", "trashed")],
        }
        assert 'class="chip"' not in ask_as(board).get("/b/jobs/jobs?state=trashed").text

    def test_a_job_has_its_age_with_the_moment_on_hover(self, board: JobBoard) -> None:
        moment = board.post("mail", delay=7200).created_on
        page = ask_as(board).get("/b/jobs/jobs?state=delayed")
        assert re.search(rf'title="{moment:%Y-%m-%d %H:%M:%S} UTC">\d+s ago</time>', page.text)
        assert re.search("due in (2h|1h59m)", text_of(page))

    def test_details_are_searched_for_those_who_may_see_them(self, board: JobBoard, jobs: dict[str, Job]) -> None:
        others = [right for right in RIGHTS if right != "details"]
        page = ask_as(board, *others).get("/b/jobs/jobs?detail=order.id=4711")
        assert (page.status_code, uuids_in(page)) == (403, [])
        assert 'name="detail"' not in ask_as(board, *others).get("/b/jobs/jobs").text
        assert ask_as(board, "details").get("/b/jobs/jobs?detail=4711").status_code == 400

    @pytest.mark.parametrize(
        "query", ["state=alive", "older=soon", "after=none", "after=~!!", "after=1,2,3,4,5", "older=-1"]
    )
    def test_what_can_not_be_read_is_said(self, board: JobBoard, query: str) -> None:
        assert ask_as(board).get(f"/b/jobs/jobs?{query}").status_code == 400

    @on_both
    @pytest.mark.parametrize("query", ["", "key_prefix=even"])
    def test_pages_show_each_job_once_also_of_one_moment(self, board: JobBoard, query: str) -> None:
        posted = board.post_many([Posting("mail", key=f"{'odd' if n % 2 else 'even'}/{n}") for n in range(230)])
        wanted = [job.uuid for job in posted if "even" not in query or str(job.key).startswith("even")]
        ask, path, seen = ask_as(board), f"/b/jobs/jobs?{query}", list[str]()
        for _ in range(10):
            page = ask.get(path)
            seen += uuids_in(page)
            following = next_of(page)
            if following is None:
                break
            assert set(httpx.QueryParams(query).multi_items()) <= set(httpx.URL(following).params.multi_items())
            path = following
        assert seen == wanted

    def test_a_filter_that_few_fit_reads_a_bounded_number(
        self, board: JobBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from jobboard.operate import paging

        monkeypatch.setattr(paging.page_of, "__defaults__", (None, 50, 100))
        board.post_many([Posting("mail") for _ in range(150)])
        last = board.post("mail", key="last")
        page = ask_as(board).get("/b/jobs/jobs?key_prefix=last")
        assert "No jobs that fit among the 100 that were looked at" in text_of(page)
        assert uuids_in(ask_as(board).get(next_of(page) or "")) == [last.uuid]


class TestJob:
    def test_it_tells_the_history_and_the_last_error(self, board: JobBoard) -> None:
        job = board.post("mail", max_attempts=2)
        board.claim(job, "worker@host")
        board.abandon(job, "worker@host", reason="ValueError: 5", error="Traceback ...\nValueError: 5")
        said = text_of(ask_as(board).get(f"/b/jobs/jobs/{job.uuid}"))
        assert "No conductor that is alive has a handler for 'mail'" in said
        assert "Its last error (attempt 1 of 2 so far): ValueError: 5" in said
        assert "Traceback ... ValueError: 5" in said
        steps = (
            "Last error",
            "Since it was posted",
            "Facts",
            "abandoned worker@host ValueError: 5",
            "claimed worker@host",
            "posted",
        )
        places = [said.rindex(step) for step in steps]
        assert places == sorted(places)

    def test_its_attempts_are_drawn_without_a_script(self, board: JobBoard) -> None:
        job = board.post("mail", key="order/7")
        board.claim(job, "worker@host")
        board.abandon(job, "worker@host", delay=60, reason=MARKUP)
        page = ask_as(board).get(f"/b/jobs/jobs/{job.uuid}")
        said = text_of(page)
        assert said.startswith("mail order/7 delayed")
        assert "Attempts queued waiting for retry, delayed failed Since it was posted" in said
        assert re.search(r"1 queued \d+ms running \d+ms queued \d+ms \d+ms failed 0s ago : <img", said)
        assert re.search(r"waiting for retry \d+ms so far - - - Facts", said)
        assert re.search(r'<rect class="running bad" x="[\d.]+" width="[\d.]+" height="10">', page.text)
        assert (MARKUP in page.text, "style=" in page.text) == (False, False)

    def test_it_leads_to_what_belongs_to_it(self, board: JobBoard) -> None:
        board.schedules.add(Schedule("nightly", Every(hours=1), "mail"))
        fired = board.schedules.fire_now("nightly")
        board.limits.set(lane="tenant:*", running=1)
        child = board.post("report", lane="tenant:1", after=[fired], key="order/8")
        ask = ask_as(board)
        for job, paths in {
            fired: ("schedule?id=nightly", f"jobs/{fired.uuid}/graph"),
            child: ("lanes?q=tenant%3A1", f"jobs/{child.uuid}/graph"),
        }.items():
            page = ask.get(f"/b/jobs/jobs/{job.uuid}")
            links = links_of(page)
            assert {f"/b/jobs/{path}" for path in paths} <= set(links)
            (of_key,) = [link for link in links if "&key=" in link]
            assert uuids_in(ask.get(of_key)) == [job.uuid]

    def test_every_job_says_why(self, board: JobBoard) -> None:
        board.register_entity(Entity("conductor", "c@host", {"names": ["mail"], "concurrency": 1, "running": 1}))
        board.pause("mail")
        job = board.post("mail")
        said = text_of(ask_as(board).get(f"/b/jobs/jobs/{job.uuid}"))
        assert "Why it does not run" in said
        assert "Jobs named 'mail' are paused" in said
        assert "had a free slot" in said
        board.resume("mail")
        board.claim(job, "c@host")
        assert "It is claimed by c@host" in text_of(ask_as(board).get(f"/b/jobs/jobs/{job.uuid}"))
        board.consume(job, "c@host", "done")
        assert "It is complete, consumed by c@host" in text_of(ask_as(board).get(f"/b/jobs/jobs/{job.uuid}"))

    def test_a_claimed_one_tells_its_token_and_since_when_it_runs_among_its_facts(self, board: JobBoard) -> None:
        job = board.post("mail")
        token = board.claim(job, "w")
        before, facts = text_of(ask_as(board).get(f"/b/jobs/jobs/{job.uuid}")).split(" Facts ")
        assert re.search(rf"Runs since 20\d\d-\S+ \S+ UTC , 0s ago Token {token} ", facts)
        assert f"token {token}" not in before

    def test_a_command_in_a_sentence_is_code_of_whole_words(self, board: JobBoard) -> None:
        job = board.post("mail one", lane="a, b", delay=60)
        board.pause("mail one")
        page = ask_as(board).get(f"/b/jobs/jobs/{job.uuid}").text
        commands = re.findall(r'<code class="command">(.*?)</code>', page)
        words = [re.findall("<span><bdi>(.*?)</bdi></span>", command) for command in commands]
        assert ["jobboard", "run-now", job.uuid] in words
        assert ["jobboard", "resume", "&#39;mail one&#39;"] in words

    def test_what_it_carries_is_hidden_until_granted(self, board: JobBoard) -> None:
        job = board.post("mail", details={"to": "secret-to", "password": "secret-word"})
        token = board.claim(job, "w")
        board.checkpoint(job, "w", {"step": "secret-step"}, token=token)
        board.extend_many([job], "w", progress=[{"done": 3, "total": 10, "text": "secret-text"}])
        path = f"/b/jobs/jobs/{job.uuid}"
        page = ask_as(board, *(right for right in RIGHTS if right != "details")).get(path)
        assert "secret" not in page.text
        assert "Progress: 3 of 10, 30 %" in text_of(page)
        page = ask_as(board, "details").get(path)
        for word in ("secret-to", "secret-word", "secret-step", "secret-text"):
            assert word in page.text
        assert "Progress: 3 of 10, 30 % secret-text" in text_of(page)
        redacted = ask_as(board, "details", format_details=lambda job: {**job.details, "password": "***"}).get(path)
        assert ("secret-to" in redacted.text, "secret-word" in redacted.text) == (True, False)

    def test_a_list_says_why_jobs_wait_as_the_command_line_does(self, board: JobBoard) -> None:
        board.limits.set(lane="stripe", running=1)
        parent, *charges = board.post_many([Posting("fetch"), *[Posting("charge", lane="stripe")] * 2])
        waiting = board.post("expense")
        fence, client = Fence(waiting.uuid, "w", board.claim(waiting, "w")), client_of(board)
        client.call(client.backend.jobs.abandon, [Abandonment(fence, counted=False, signal="approved")])
        child = board.post("report", after=[parent], delay=60)
        said = text_of(ask_as(board).get("/b/jobs/jobs?state=blocked&state=delayed&state=unclaimed"))
        for job, why in {
            charges[1]: "lane stripe", waiting: "signal approved", child: "due in 1m · parents", parent: "why"
        }.items():  # fmt: skip
            end = job.uuid[-8:]
            assert re.search(rf"{end} .*? {why} : why {end} waits", said), why

    def test_what_the_sampler_saw_says_why_unclaimed_ones_wait(
        self, board: JobBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sampler = Sampler(board, interval=3600.0)
        monkeypatch.setattr("jobboard.console.pages.jobs.sampler_of", lambda _view: sampler)
        held = {"paused": "paused", "gone": "no conductor", "full": "limit of its name", "free": "its turn"}
        jobs = board.post_many([Posting(name) for name in held])
        board.pause("paused")
        board.limits.set(name="full", running=1)
        board.claim(board.post("full"), "w")
        board.register_entity(Entity("conductor", "c", {"names": ["free", "full"], "concurrency": 1}, ttl=600.0))
        assert f": why {jobs[0].uuid[-8:]} waits" in text_of(ask_as(board).get("/b/jobs/jobs?state=unclaimed"))
        sampler.look()
        said = text_of(ask_as(board).get("/b/jobs/jobs?state=unclaimed"))
        sampler.stop(20)
        for job in jobs:
            assert f" {held[job.name]} : why {job.uuid[-8:]} waits" in said

    def test_the_list_has_details_for_those_who_may_see_them(
        self, board: JobBoard, caplog: pytest.LogCaptureFixture
    ) -> None:
        board.post_many([Posting("mail", {"to": "a word"}), Posting("mail", {"to": "b" * 200}), Posting("mail")])
        board.post("large", {"text": "c" * 5000})
        path = "/b/jobs/jobs"
        page = ask_as(board, *(right for right in RIGHTS if right != "details")).get(path)
        assert ("a word" in page.text, "Details" in text_of(page)) == (False, False)
        said = text_of(ask_as(board, "details").get(path))
        assert '{"to": "a word"}' in said
        assert f'{{"to": "{"b" * 112}…' in said
        assert re.search(r"5,0\d\d bytes", said)
        assert "c" * 9 not in said
        redacted = ask_as(board, "details", format_details=lambda job: "hidden" if job.details else 1 / 0).get(path)
        assert (redacted.status_code, text_of(redacted).count("hidden")) == (200, 2)
        assert "a word" not in redacted.text

    @pytest.mark.parametrize("uuid", ["x", "00000000-0000-0000-0000-000000000000", "%3Cscript%3E", "a/b"])
    def test_what_is_not_there_is_not_found(self, board: JobBoard, uuid: str) -> None:
        page = ask_as(board).get(f"/b/jobs/jobs/{uuid}")
        assert page.status_code == 404
        assert "<script>" not in page.text

    @on_both
    @pytest.mark.parametrize(
        ("action", "before", "after"),
        [
            ("release", "CLAIMED", "UNCLAIMED"), ("run_now", "DELAYED", "UNCLAIMED"), ("cancel", "UNCLAIMED", None),
            ("cancel", "CLAIMED", "CLAIMED"), ("trash", "CLAIMED", "TRASHED"), ("restore", "TRASHED", "UNCLAIMED"),
            ("purge", "TRASHED", None),
        ],
    )  # fmt: skip
    def test_an_action_needs_its_right_and_tells_who_did_it(
        self, board: JobBoard, action: str, before: str, after: str | None
    ) -> None:
        told: list[tuple[str, str, list[str]]] = []
        job = board.post("mail", delay=100 if before == "DELAYED" else None)
        if before == "CLAIMED":
            board.claim(job, "worker")
        if before == "TRASHED":
            trash(board, job)
        path, form = f"/b/jobs/jobs/{job.uuid}", {"action": action, "confirmed": "yes", "reason": "a note"}
        others = [right for right in RIGHTS if right != action]
        for ask in (ask_as(board), ask_as(board, *others)):
            assert f'value="{action}"' not in ask.get(path).text
            assert ask.post(path, form).status_code == 403
            assert board.get(job.uuid).record.state == before
        ask = ask_as(board, action, on_action=lambda *call: told.append(call))
        assert f'value="{action}"' in ask.get(path).text
        for headers in ({}, {"Sec-Fetch-Site": "cross-site"}):
            assert ask.post(path, form, headers=headers).status_code == 403
        assert (board.get(job.uuid).record.state, told) == (before, [])
        assert ask.post(path, form).status_code == 200
        assert told == [("ann", action, [job.uuid])]
        if after is not None:
            found = board.get(job.uuid)
            assert found.record.state == after
            assert "ann" in f"{found.history[-1].who} {found.history[-1].reason}"

    @pytest.mark.parametrize("action", ["cancel", "trash", "purge"])
    def test_what_can_not_be_undone_is_asked_twice(self, board: JobBoard, action: str) -> None:
        job = board.post("mail")
        if action == "purge":
            trash(board, job)
        before = board.get(job.uuid).record.state
        asked = ask_as(board, action).post(f"/b/jobs/jobs/{job.uuid}", {"action": action})
        assert 'name="confirmed" value="yes"' in asked.text
        assert board.get(job.uuid).record.state == before

    def test_a_restore_that_a_living_job_forbids_says_which(self, board: JobBoard) -> None:
        old = trash(board, board.post("mail", key="order/7"))
        new = board.post("mail", key="order/7")
        ask, path = ask_as(board, "restore"), f"/b/jobs/jobs/{old.uuid}"
        page = ask.post(path, {"action": "restore"})
        assert (page.status_code, page.url.path) == (409, path)
        assert f"job {new.uuid} ({new.name}:{new.key}), which is live, has its key by now" in text_of(page)
        assert f"/b/jobs/jobs/{new.uuid}" in links_of(page)
        assert board.get(old.uuid).record.state is JobState.TRASHED
        page = ask.post(
            "/b/jobs/bulk?action=restore&state=trashed&name=mail",
            preview(ask, "/b/jobs/bulk?action=restore&state=trashed&name=mail"),
        )
        assert (page.status_code, new.uuid in text_of(page)) == (409, True)

    def test_only_the_claim_that_was_seen_is_released(self, board: JobBoard) -> None:
        job = board.post("mail")
        board.claim(job, "worker")
        seen = re.findall(r'name="token" value="(\d+)"', ask_as(board, "release").get(f"/b/jobs/jobs/{job.uuid}").text)
        board.abandon(job, "worker")
        board.claim(job, "other")
        page = ask_as(board, "release").post(f"/b/jobs/jobs/{job.uuid}", {"action": "release", "token": seen[0]})
        assert (page.status_code, board.find_owner(job.uuid)) == (409, "other")
        assert "ended before it could be released" in text_of(page)

    def test_an_action_that_is_none_is_refused(self, board: JobBoard) -> None:
        job = board.post("mail")
        for action in ("", "explode", "details"):
            assert ask_as(board, *RIGHTS).post(f"/b/jobs/jobs/{job.uuid}", {"action": action}).status_code == 400
        assert ask_as(board, *RIGHTS).post("/b/jobs/jobs").status_code == 405
        assert ask_as(board, *RIGHTS).post(f"/b/jobs/jobs/{job.uuid}", {"action": "x" * 70_000}).status_code == 413

    def test_a_listener_that_fails_harms_nothing(self, board: JobBoard, caplog: pytest.LogCaptureFixture) -> None:
        job = board.post("mail", delay=100)
        ask = ask_as(board, "run_now", on_action=lambda *call: 1 / 0)
        assert ask.post(f"/b/jobs/jobs/{job.uuid}", {"action": "run_now"}).status_code == 200
        assert board.get(job.uuid).record.state is JobState.UNCLAIMED
        assert "on_action failed" in caplog.text


MARKUP = "<img src=x>"
NASTY = "<img src=x onerror=alert(1)>\"'{{7*7}}</title></pre>\x1b[31m\u202eevil\u2028"


def test_no_text_of_users_becomes_markup_or_steers(board: JobBoard) -> None:
    text, name = NASTY, NASTY.replace("\x1b", "")
    job = board.post(name, key=name, details={"text": text, "long": "x" * 200_000})
    board.claim(job, name)
    board.abandon(job, name, reason=text, error=text * 100)
    other = trash(board, board.post("other", key=name), text)
    ask = ask_as(board, *RIGHTS)
    for path in (
        "/b/jobs/jobs", "/b/jobs/jobs?state=trashed", f"/b/jobs/jobs/{job.uuid}", f"/b/jobs/jobs/{other.uuid}",
        "/b/jobs/trash", "/b/jobs/bulk?action=restore&state=trashed&name=other",
        f"/b/jobs/bulk?action=trash&job={job.uuid}",
    ):  # fmt: skip
        page = ask.get(path)
        assert page.status_code == 200
        _check_harmless(page)
    for name in ("name", "key", "owner", "q", "state", "older", "after", "kind", "reason", "schedule", "uuid"):
        _check_harmless(ask.get("/b/jobs/jobs", params={name: text}))
        _check_harmless(ask.get("/b/jobs/trash", params={name: text}))


def _check_harmless(page: httpx.Response) -> None:
    assert "<img" not in page.text
    # The fields of a form keep what was given, within themselves.
    shown = re.sub(r'(?:value|href)="[^"]*"', "", page.text)
    for character in "\x1b\u202e\u2028":
        assert character not in shown
    assert len(page.content) < 300_000
