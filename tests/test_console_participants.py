"""The console's pages on names, conductors and owners, schedules, events, and health."""

from __future__ import annotations

import os
import platform
import re
import threading
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any
from urllib.parse import quote_plus

import pytest
from helpers.console import Asking, asking, links_of, text_of
from helpers.memory_seam import fresh_name

from jobboard import Conductor, Cron, Entity, Every, Handlers, JobBoard, JobState, Posting, Schedule, Scheduler, fetch
from jobboard.backends.findings import AuditFinding, Persistence
from jobboard.board import client_of
from jobboard.console import RIGHTS, allow
from jobboard.console.pages.events import MAX_EVENTS, EventLog
from jobboard.console.shared import SharedAnswers
from jobboard.events import EventKind, JobEvent
from jobboard.operate.sampling import Sampler
from jobboard.quiet import quiet_ones
from jobboard.testing import clock_of, eventually, fire_due, memory_board
from jobboard.validation import moment

MARKUP = "<script>alert(1)</script>"
PATHS = ("names", "conductors", "conductors/release?owner=x", "schedules", "schedule?id=", "events", "health")


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with fetch(fresh_name(), "memory://") as board:
        yield board


@pytest.fixture
def told() -> list[tuple[Any, ...]]:
    return []


@pytest.fixture
def console(board: JobBoard, told: list[tuple[Any, ...]]) -> Asking:
    """A console whose user may do anything, and is called ann."""
    return asking(
        {"shop": board}, access=allow(*RIGHTS), on_action=lambda *action: told.append(action), who=lambda _: "ann"
    )


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("names", {"action": "pause", "name": "mail"}),
        ("names", {"action": "resume", "name": "mail"}),
        ("conductors", {"action": "quiet", "name": "worker"}),
        ("conductors/release?owner=me", {"claim": "x/1"}),
        ("schedules", {"action": "fire", "id": "beat"}),
        ("schedules", {"action": "pause", "id": "beat"}),
        ("health", {"action": "repair"}),
    ],
)
def test_without_the_right_nothing_is_changed(board: JobBoard, path: str, form: dict[str, str]) -> None:
    board.schedules.add(Schedule("beat", Every(hours=1), "beat"))
    board.register_entity(Entity("conductor", "worker"))
    others = sorted(set(RIGHTS) - {"pause", "resume", "quiet", "release", "schedules", "repair"})
    reader = asking({"shop": board}, access=allow(*others))
    page = reader.get(f"/b/shop/{path.partition('?')[0].partition('/')[0]}")
    assert page.status_code == 200
    assert "<button name=" not in page.text.replace('<button name="action" value="check">', "")
    assert reader.post(f"/b/shop/{path}", form).status_code == 403
    assert (board.paused(), quiet_ones(board), board.job_count) == (set(), frozenset(), 0)
    assert board.schedules.get("beat").state == "active"


def test_a_name_is_paused_and_resumed(board: JobBoard, console: Asking, told: list[tuple[Any, ...]]) -> None:
    board.post("mail")
    assert "paused" not in text_of(console.get("/b/shop/names"))
    page = console.post("/b/shop/names?q=mai", {"action": "pause", "name": "mail"})
    assert "mail paused" in text_of(page)
    assert str(page.url).endswith("?q=mai")
    assert board.paused() == {"mail"}
    question = text_of(console.post("/b/shop/names", {"action": "pause", "name": ""}))
    assert "Pause the whole board?" in question
    assert "1 wait and 0 are delayed; the 0 that run go on" in question
    assert board.paused() == {"mail"}
    console.post("/b/shop/names", {"action": "pause", "name": "", "confirmed": "yes", "reason": "disk full"})
    page = console.post("/b/shop/names", {"action": "resume", "name": "mail"})
    assert "The whole board is paused" in text_of(page)
    assert re.search(r"by ann \d+s ago : disk full", text_of(page))
    assert board.paused() == {None}
    console.post("/b/shop/names", {"action": "resume", "name": ""})
    assert board.paused() == set()
    assert told[:2] == [("ann", "pause", ["mail"]), ("ann", "pause", ["the whole board"])]


def test_a_paused_name_without_jobs_can_be_resumed(board: JobBoard, console: Asking) -> None:
    board.pause("nobody")
    assert "nobody paused" in text_of(console.get("/b/shop/names"))


def test_names_show_how_long_their_jobs_waited_and_ran(
    board: JobBoard, console: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = Sampler(board, interval=3600.0)
    monkeypatch.setattr("jobboard.console.pages.names.sampler_of", lambda _view: sampler)
    sampler.look()
    board.post_many([Posting("mail")] * 2)
    first, second = board.claim_next("me", limit=2)
    board.consume(first, "me")
    board.abandon(second, "me", reason="ValueError")
    eventually(lambda: sampler._counts._total.failed == 1, 20)
    sampler.look()
    (minute,) = [minute for minute in sampler.minutes(0) if minute.total.failed]
    for what in (minute.names["mail"].wait, minute.names["mail"].run):
        for _ in range(98):
            what.add(60.0)
    page = text_of(console.get("/b/shop/names"))
    sampler.stop()
    assert "mail history of mail 1" in page
    assert page.count("55s, 55s") == 2
    assert "55s 1 What finished and failed of mail in the last hour 1 50 % Limit … mail Pause … mail" in page


@pytest.mark.parametrize("listens", [True, False])
def test_nothing_is_said_to_have_finished_or_failed_before_anything_was_heard(
    board: JobBoard, console: Asking, monkeypatch: pytest.MonkeyPatch, listens: bool
) -> None:
    sampler = Sampler(board, interval=3600.0, listen=listens)
    for page in ("names", "overview"):
        monkeypatch.setattr(f"jobboard.console.pages.{page}.sampler_of", lambda _view: sampler)
    board.post("mail")
    sampler.look()
    row, heading = "{0} {0} Limit … mail Pause … mail", "Posted Finished Failed"
    assert row.format("-") in text_of(console.get("/b/shop/names"))
    assert "0 0 0 0 - - -" in text_of(console.get("/b/shop/")).partition(heading)[2]
    if listens:
        assert sampler._heard_until
        sampler._heard_until -= 30
    sampler.look()
    count, later = "0" if listens else "-", asking({"shop": board}, access=allow(*RIGHTS))
    page = text_of(later.get("/b/shop/names"))
    assert row.format(count) in page
    # A busy machine takes seconds for these pages.
    assert bool(re.search(r"so far of [3-9]\ds", page)) is listens
    assert f"0 0 0 0 {count} {count} {count}" in text_of(later.get("/b/shop/")).partition(heading)[2]
    sampler.stop()


def test_a_conductor_is_made_quiet_and_claims_again(
    board: JobBoard, console: Asking, told: list[tuple[Any, ...]]
) -> None:
    for number in range(3):
        metadata = {"names": ["mail"], "concurrency": 4, "running": number, "host": "h", "pid": 1}
        board.register_entity(Entity("conductor", f"worker-{number}", metadata))
    stuck = {"names": ["mail"], "concurrency": 4, "stuck": 1, "stuck_names": ["resize"], "healthy": False}
    board.register_entity(Entity("conductor", "hung", stuck))
    page = text_of(console.get("/b/shop/conductors"))
    assert "hung conductor alive 1 stuck resize unhealthy" in page
    assert "2 of 4" in page
    assert "hung" not in text_of(console.get("/b/shop/conductors?q=worker-"))
    assert "quiet soon" in text_of(console.post("/b/shop/conductors", {"action": "quiet", "name": "worker-1"}))
    assert quiet_ones(board) == {"worker-1"}
    console.post("/b/shop/conductors", {"action": "wake", "name": "worker-1"})
    assert quiet_ones(board) == frozenset()
    assert console.post("/b/shop/conductors", {"action": "quiet", "name": "nobody"}).status_code == 404
    assert told == [("ann", "quiet", ["worker-1"])] * 2


def test_who_works_is_shown_with_its_process_and_what_it_runs(board: JobBoard, console: Asking) -> None:
    handlers, ended = Handlers(), threading.Event()
    handlers.add("mail", lambda _job: ended.wait(20))
    job = board.post("mail")
    with Conductor("worker", board, handlers, concurrency=2), Scheduler(board):
        eventually(lambda: board.find_owner(job) is not None, 20)
        eventually(lambda: len(board.entities()) == 2, 20)
        told_of = [entity.metadata for entity in board.entities()]
        page = console.get("/b/shop/conductors")
        owner = board.find_owner(job)
        ended.set()
    for metadata in told_of:
        assert metadata["version"] == version("jobboard")
        assert (metadata["memory"] > 2**20, metadata["uptime"] < 60) == (True, True)
    said = text_of(page)
    assert said.count(f" {os.getpid()} jobboard {version('jobboard')} , Python {platform.python_version()}") == 2
    assert len(re.findall(r"alive (\d+s|\d+ms) \d+s ago [\d,]+ MiB", said)) == 2
    link = f"/b/shop/jobs?state=claimed&owner={quote_plus(owner or '')}"
    assert link in links_of(page)


def test_what_nobody_tells_of_its_process_is_left_out(board: JobBoard, console: Asking) -> None:
    odd = {"uptime": "x", "memory": None, "version": MARKUP, "host": ["h"], "pid": {}}
    board.register_entity(Entity("conductor", "odd", odd, 600))
    page = console.get("/b/shop/conductors")
    assert ("alive - 0s ago - 0 of 0" in text_of(page), MARKUP in page.text) == (True, False)


def test_what_can_be_no_name_and_no_id_is_refused(board: JobBoard, console: Asking) -> None:
    for text in ("x" * 300, "a\0b"):
        assert console.post("/b/shop/names", {"action": "pause", "name": text}).status_code == 400
        assert console.post("/b/shop/schedules", {"action": "fire", "id": text}).status_code == 400
        assert console.get("/b/shop/schedule", params={"id": text}).status_code == 400
    assert console.post("/b/shop/names", {"action": "x", "name": "mail"}).status_code == 400
    assert console.post("/b/shop/health", {"action": "x"}).status_code == 400
    assert console.post("/b/shop/conductors", {"action": "x"}).status_code == 400


def test_what_an_owner_holds_is_shown_and_released(
    board: JobBoard, console: Asking, told: list[tuple[Any, ...]]
) -> None:
    board.post_many([Posting("mail")] * 3)
    mine = board.claim_next("dead@host", limit=2)
    board.claim_next("alive")
    page = text_of(console.get("/b/shop/conductors"))
    assert "dead@host not registered 2 mail" in page
    preview = console.get("/b/shop/conductors/release?owner=dead@host")
    assert "2 jobs named 'mail'" in text_of(preview)
    # One of them is claimed anew meanwhile, by an owner of the same name: that claim was not shown.
    board.abandon(mine[0], "dead@host")
    (again,) = board.claim_next("dead@host")
    claims = [part.split('"')[0] for part in preview.text.split('name="claim" value="')[1:]]
    page = console.post("/b/shop/conductors/release?owner=dead@host", {"claim": claims})
    assert "1 claims were ended" in text_of(page)
    assert {job.uuid: board.find_owner(job) for job in mine} == {again.uuid: "dead@host", mine[1].uuid: None}
    assert [line.reason for line in board.get(mine[1].uuid).history][-1] == "released by an operator (ann)"
    assert told == [("ann", "release", [mine[1].uuid])]


def test_schedules_are_explained_paused_resumed_and_fired(
    board: JobBoard, console: Asking, told: list[tuple[Any, ...]]
) -> None:
    odd = f"a/b?{MARKUP}"
    board.schedules.add(Schedule(odd, Cron("0 3 * * *", tz="Europe/Berlin"), "report"))
    board.schedules.add(Schedule("beat", Every(hours=1), "beat"))
    page = text_of(console.get("/b/shop/schedules"))
    assert "at 03:00 every day, Europe/Berlin" in page
    assert "03:00:00 Europe/Berlin" in page
    assert "beat" not in text_of(console.get("/b/shop/schedules?q=report"))
    one = console.get("/b/shop/schedule", params={"id": odd})
    assert "Time zone Europe/Berlin" in text_of(one)
    assert text_of(one).count("03:00:00 Europe/Berlin") == 10
    page = console.post("/b/shop/schedules", {"action": "pause", "id": odd, "from": "schedule"})
    assert "paused (by ann since " in text_of(page)
    assert "It is paused, and does not fire." in text_of(page)
    row = text_of(console.get("/b/shop/schedules?q=report"))
    assert re.search(
        r"paused paused \(by ann .* at 03:00 .* Resume .* Fire now … .* It posts one job named report", row
    )
    console.post("/b/shop/schedules", {"action": "resume", "id": odd})
    row = text_of(console.get("/b/shop/schedules?q=report"))
    assert re.search(r" Pause … .* Fire now … .* It posts one job named report", row)
    assert board.schedules.get(odd).state == "active"
    console.post("/b/shop/schedules", {"action": "fire", "id": odd})
    (job,) = board.iterjobs()
    assert (job.name, job.schedule_id) == ("report", odd)
    assert "fired" in text_of(console.get("/b/shop/schedule", params={"id": odd}))
    said = text_of(console.get("/b/shop/schedule", params={"id": odd}))
    assert all(line in said for line in ("paused, by ann", "resumed, by ann", "by hand, by ann"))
    [change] = board.schedules.apply([board.schedules.get(odd)], "bookshop", by="bob")
    assert change.fields == ["source"]
    assert "Source bookshop" in text_of(console.get("/b/shop/schedule", params={"id": odd}))
    assert "unclaimed of the last run of a/b?" in text_of(console.get("/b/shop/schedules"))
    assert console.post("/b/shop/schedules", {"action": "fire", "id": "none"}).status_code == 404
    assert told == [("ann", "schedules", [odd])] * 3


def test_events_are_shown_newest_first_while_somebody_looks(board: JobBoard, console: Asking) -> None:
    console.get("/b/shop/events")
    board.post("mail")
    (job,) = board.claim_next("me")
    board.trash(job, "me", reason=MARKUP)
    eventually(lambda: "trashed mail" in text_of(console.get("/b/shop/events")), 20)
    assert "posted mail" not in text_of(console.get("/b/shop/events"))
    text = text_of(console.get("/b/shop/events?kind=any"))
    assert text.index("trashed mail") < text.index("claimed mail") < text.index("posted mail")
    assert "posted mail" not in text_of(console.get("/b/shop/events?kind=trashed"))
    for kind in ("any", "ALL"):
        page = console.get(f"/b/shop/events?kind={kind}")
        assert (text_of(page)[:22], "posted mail" in text_of(page)) == ("Events trouble all Kin", True)
        assert page.text.count('aria-current="true">all</a>') == 1
    assert console.get("/b/shop/events?kind=odd").status_code == 400
    assert "Nothing has happened" in text_of(console.get("/b/shop/events?name=other"))


def test_events_without_end_take_bounded_room_and_nobody_is_told_in_vain(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EventLog(board)
    log.read()
    for number in range(5 * MAX_EVENTS):
        log._add(JobEvent(EventKind.TRASHED, str(number), "mail", "me", 1, moment(1.0), "x" * 10_000))
    events = log.read()
    assert (len(events), log.total) == (MAX_EVENTS, 5 * MAX_EVENTS)
    assert max(len(event.reason or "") for event in events) < 400
    # Nobody has read it for longer than that.
    monkeypatch.setattr("jobboard.console.pages.events._IDLE_TTL", -1.0)
    log._add(events[0])
    assert log._unsubscribe is None
    monkeypatch.undo()
    assert log.read() == []
    log.close()


def test_schedules_show_whose_jobs_nobody_has_a_handler_for(board: JobBoard, console: Asking) -> None:
    board.register_entity(Entity("conductor", "worker", {"names": ["mail", "report"], "concurrency": 1}, ttl=600.0))
    for id, name in {"poll": "mail", "typo": "mial", "nightly": "report", "weekly": "reprot"}.items():
        board.schedules.add(Schedule(id, Every(hours=1), name))
    # As the sampler saw it, which the overview waits for.
    console.get("/b/shop/")
    page = text_of(console.get("/b/shop/schedules"))
    found = {id: f"{id} active no handler" in page for id in ("poll", "typo", "nightly", "weekly")}
    assert found == {"poll": False, "typo": True, "nightly": False, "weekly": True}
    assert "has a handler for jobs named mial" in text_of(console.get("/b/shop/schedule?id=typo"))
    assert "has a handler" not in text_of(console.get("/b/shop/schedule?id=poll"))


def test_schedules_show_what_they_skipped() -> None:
    with memory_board("skips") as board:
        board.schedules.add(Schedule("beat", Every(minutes=1), "beat"))
        for _ in range(5):
            clock_of(board).move(60)
            fire_due(board)
        ask = asking({"shop": board})
        assert "beat 1 0 4 the last 4" in text_of(ask.get("/b/shop/schedules"))
        assert "1, 0 missed, 4 skipped: the last 4" in text_of(ask.get("/b/shop/schedule?id=beat"))


def test_health_names_the_store_and_checks_and_repairs_its_records(
    board: JobBoard, console: Asking, monkeypatch: pytest.MonkeyPatch, told: list[tuple[Any, ...]]
) -> None:
    page = text_of(console.get("/b/shop/health"))
    assert "Kind memory" in page
    assert "Largest details 512 KiB" in page
    assert "Durable no keeps nothing" in page
    assert "It is gone with its process" in page
    assert "All records agree" in text_of(console.post("/b/shop/health", {"action": "check"}))
    asked: list[bool] = []

    def audit(repair: bool) -> list[AuditFinding]:
        asked.append(repair)
        return [AuditFinding(None, f"a record says {MARKUP}", repair)]

    monkeypatch.setattr(client_of(board).backend.maintenance, "audit", audit)
    other = asking({"shop": board}, access=allow(*RIGHTS), on_action=lambda *action: told.append(action))
    page = other.post("/b/shop/health", {"action": "check"})
    assert MARKUP in text_of(page)
    assert MARKUP not in page.text
    # Many may ask at once, and each of them would read every record.
    other.post("/b/shop/health", {"action": "check"})
    assert asked == [False]
    assert "Repaired" in text_of(other.post("/b/shop/health", {"action": "repair"}))
    assert asked == [False, True]
    assert told[0][1] == "repair"
    other.post("/b/shop/health", {"action": "check"})
    assert asked == [False, True, False]


@pytest.mark.parametrize(
    ("persistence", "said"),
    [
        (Persistence(True), "Durable yes keeps all"),
        (Persistence(True, "a crash loses about the last second"), "Durable mostly but for some crashes"),
        (Persistence(False, "it is gone with its process"), "Durable no keeps nothing"),
        (Persistence(None, "it does not tell"), "Durable unknown not told"),
    ],
)
def test_health_says_durable_only_of_what_no_crash_loses(
    board: JobBoard, console: Asking, monkeypatch: pytest.MonkeyPatch, persistence: Persistence, said: str
) -> None:
    monkeypatch.setattr(client_of(board).backend, "persistence", lambda: persistence)
    page = text_of(console.get("/b/shop/health"))
    assert said in page
    assert persistence.text[1:] in page


def test_an_answer_that_was_asked_for_before_a_change_is_not_kept(board: JobBoard) -> None:
    answers, state = SharedAnswers(board), ["before"]

    def ask() -> str:
        [answer] = state
        if answer == "before":
            state[0] = "after"
            answers.forget()
        return answer

    assert [answers.get("state", ask, 60.0) for _ in range(3)] == ["before", "after", "after"]


def test_markup_in_any_name_is_shown_as_text(board: JobBoard, console: Asking) -> None:
    board.register_entity(Entity("conductor", MARKUP, {"names": [MARKUP], "fault": MARKUP, "stuck_names": [MARKUP]}))
    board.schedules.add(Schedule(MARKUP, Every(hours=1), MARKUP))
    console.get("/b/shop/events")
    board.post(MARKUP)
    board.claim_next(MARKUP)
    board.pause(MARKUP)
    for path in PATHS:
        for query in ("", f"?q={MARKUP}", f"?owner={MARKUP}", f"?id={MARKUP}", f"?name={MARKUP}"):
            page = console.get(f"/b/shop/{path.partition('?')[0]}{query}")
            assert page.status_code in (200, 400, 404)
            assert MARKUP not in page.text
    assert [job.record.state for job in board.iterjobs()] == [JobState.CLAIMED]


@pytest.mark.parametrize("text", [" x", "x ", "\u2028x", "\u00a0x"])
def test_names_and_ids_may_begin_and_end_with_blanks(board: JobBoard, console: Asking, text: str) -> None:
    schedule, worker = Schedule(text, Every(hours=1), text), Entity("conductor", text, {"names": [text]}, 600)
    board.schedules.add(schedule)
    board.register_entity(worker)
    job = board.post(text)
    board.post("x")
    board.claim(job, text)
    assert console.get("/b/shop/schedule", params={"id": text}).status_code == 200
    assert console.post("/b/shop/conductors", {"action": "quiet", "name": text}).status_code == 200
    assert quiet_ones(board) == {text}
    assert job.uuid in console.get("/b/shop/conductors/release", params={"owner": text}).text
    listed = console.get("/b/shop/jobs", params={"name": text}).text
    assert job.uuid in listed
    assert listed.count("/b/shop/jobs/") == listed.count(f"/b/shop/jobs/{job.uuid}")
