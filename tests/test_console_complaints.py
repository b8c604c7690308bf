"""What users complain of in other consoles, each with the tests that show it is not so here.

 1. Jobs can't be searched: test_console_jobs::test_a_search_finds_what_it_can_be,
    test_console_jobs::test_a_part_of_a_uuid_is_enough
 2. Slow on large tables: test_console_jobs::test_a_filter_that_few_fit_reads_a_bounded_number,
    test_console_bulk::test_of_a_large_trash_a_bounded_part_is_read, test_operate_status::test_the_cost_is_bounded,
    test_console_overview::test_a_hundred_browsers_cost_the_store_one_sample
 3. Open by default: test_console_guard::test_rights_are_none_by_default_and_none_means_no_look,
    test_console_guard::test_only_known_hosts_are_answered, test_cli_serve::test_wrong_usage_is_refused
 4. CSRF tokens that break: test_a_page_outlives_the_console_that_made_it,
    test_console_guard::test_changes_come_from_pages_of_the_console_only
 5. XSS: test_console_jobs::test_no_text_of_users_becomes_markup_or_steers,
    test_console_browser::test_what_is_written_on_the_board_is_shown_as_text
 6. No read-only mode: test_without_rights_no_page_has_anything_to_change
 7. No single rights: test_console_jobs::test_an_action_needs_its_right_and_tells_who_did_it,
    test_console_participants::test_without_the_right_nothing_is_changed
 8. The CSP of the app around it: test_pages_run_under_the_strictest_policy
 9. Memory grows: test_console_participants::test_events_without_end_take_bounded_room_and_nobody_is_told_in_vain,
    test_sampling::test_many_names_take_bounded_room
10. The history is gone after a restart: test_sampling::test_minutes_and_ten_minutes_outlive_their_sampler
11. Counts that drift: test_numbers_are_those_of_the_store_whatever_events_say
12. No action on all that match: test_console_bulk::test_it_says_how_many_of_what_before_and_what_became_of_them,
    test_console_bulk::test_it_is_bounded_and_goes_on
13. Filters lost after an action, and in no bookmark: test_filters_stay_after_an_action,
    test_console_jobs::test_filters_are_in_the_url_and_in_every_link
14. Failures can't be seen by error: test_console_bulk::test_it_is_grouped_by_name_and_kind_of_reason
15. Jobs can't be seen by name: test_console_participants::test_names_show_how_long_their_jobs_waited_and_ran,
    test_console_bulk::test_it_is_grouped_by_name_and_kind_of_reason
16. A worker can't be found among hundreds: test_one_conductor_is_found_among_hundreds
17. It can't be mounted: test_console_guard::test_links_lead_to_where_it_is_mounted
18. A retry refused without a reason, a deletion without a question:
    test_console_jobs::test_a_restore_that_a_living_job_forbids_says_which,
    test_console_jobs::test_what_can_not_be_undone_is_asked_twice
19. A refresh that can't be paused: test_console_browser::test_the_refresh_can_be_paused
20. It needs the code of the handlers, and pages skip jobs of one moment:
    test_it_runs_where_no_handler_is, test_console_jobs::test_pages_show_each_job_once_also_of_one_moment
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import httpx
from helpers.console import Asking, asking, links_of, text_of
from helpers.memory_board import board

from jobboard import Entity, Every, JobBoard, JobState, Posting, Schedule
from jobboard.console import RIGHTS, allow
from jobboard.console.pages.events import EventLog
from jobboard.events import EventKind, JobEvent
from jobboard.validation import moment

__all__ = ["board"]

ROOT = Path(__file__).parent.parent


def console(board: JobBoard, *rights: str) -> Asking:
    return asking({"shop": board}, access=allow(*rights), who=lambda request: "ann")


def pages_of(board: JobBoard, ask: Asking) -> dict[str, httpx.Response]:
    """Return every page that links lead to, one of each path; of a board that has something on each."""
    board.post_many([Posting("mail"), Posting("mail", delay=60), Posting("late"), Posting("broken"), Posting("held")])
    (broken, held) = (next(board.iterjobs(names=[name])) for name in ("broken", "held"))
    board.trash(broken, by="me", reason="ValueError: bad")
    board.claim(held, "worker")
    board.schedules.add(Schedule("beat", Every(hours=1), "mail"))
    board.register_entity(Entity("conductor", "worker", {"names": ["mail"], "concurrency": 1, "running": 1}))
    left = ["/b/shop/", *(f"/b/shop/jobs/{job.uuid}" for job in (broken, held))]
    found: dict[str, httpx.Response] = {}
    while left:
        link = left.pop()
        kind = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "*", link.partition("?")[0].partition("#")[0])
        if link.startswith("/b/shop/") and (kind not in found or kind.endswith("*")) and link not in found:
            found[kind] = found[link] = ask.get(link)
            assert found[link].status_code == 200, (link, found[link].text)
            left += links_of(found[link])
    assert len(found) > 10, found.keys()
    return found


class _Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def elements(page: httpx.Response) -> list[tuple[str, dict[str, str | None]]]:
    return _Elements(page.text).found


def fields_of(page: httpx.Response) -> dict[str, str]:
    """Return what the hidden fields of a page send."""
    hidden = [values for tag, values in elements(page) if tag == "input" and values.get("type") == "hidden"]
    return {str(values["name"]): str(values["value"]) for values in hidden}


def test_each_complaint_has_tests_that_exist() -> None:
    assert __doc__ is not None
    assert re.findall(r"^ ?(\d+)\. ", __doc__, re.MULTILINE) == [str(number) for number in range(1, 21)]
    for module, name in re.findall(r"(?:(\w+)::)?(test_\w+)(?!\w*::)", __doc__):
        file = module or Path(__file__).stem
        texts = [
            path.read_text() for folder in ("tests", "functional_tests") for path in (ROOT / folder).rglob(f"{file}.py")
        ]
        assert any(f"def {name}(" in text for text in texts), (file, name)


def test_a_page_outlives_the_console_that_made_it(board: JobBoard) -> None:
    job = board.post("mail")
    board.trash(job, by="me")
    first = console(board, "restore").get(f"/b/shop/jobs/{job.uuid}")
    assert "set-cookie" not in first.headers
    console(board, "restore").post(f"/b/shop/jobs/{job.uuid}", fields_of(first))
    assert job.state is JobState.UNCLAIMED


def test_without_rights_no_page_has_anything_to_change(board: JobBoard) -> None:
    for path, page in pages_of(board, console(board)).items():
        forms = [values for tag, values in elements(page) if tag == "form" and values.get("method") == "post"]
        # A check of all records changes nothing; it is a POST since it costs something.
        assert forms == [] or path.endswith("/health"), path
        assert "/bulk?" not in page.text, path


def test_pages_run_under_the_strictest_policy(board: JobBoard) -> None:
    """An app around the console may send a policy of its own: nothing here needs an exception from it."""
    for path, page in pages_of(board, console(board, *RIGHTS)).items():
        if "html" not in page.headers["content-type"]:
            continue
        for tag, values in elements(page):
            assert tag != "style", path
            assert tag != "script" or "src" in values, path
            assert not [name for name in values if name == "style" or name.startswith(("on", "hx-on"))], (path, tag)
            assert not [value for value in values.values() if (value or "").startswith(("javascript:", "http"))], path


def test_numbers_are_those_of_the_store_whatever_events_say(board: JobBoard) -> None:
    ask = console(board)
    ask.get("/b/shop/events")
    log = EventLog(board)
    log.read()
    for number in range(50):
        log._add(JobEvent(EventKind.POSTED, str(number), "mail", "me", 1, moment(1.0), None))
    board.post_many([Posting("mail") for _ in range(3)])
    said = text_of(ask.get("/b/shop/jobs"))
    assert "unclaimed 3 claimed 0 delayed 0" in said
    assert "Unclaimed 3" in text_of(ask.get("/b/shop/"))
    log.close()


def test_filters_stay_after_an_action(board: JobBoard) -> None:
    ask = console(board, *RIGHTS)
    for _ in range(3):
        board.trash(board.post("mail"), by="me", reason="OSError: disk")
    board.trash(board.post("mail"), by="me", reason="ValueError: bad")
    path = "/b/shop/bulk?action=restore&state=trashed&name=mail&kind=OSError: disk"
    done = ask.post(path, fields_of(ask.get(path)))
    assert "3 jobs named 'mail' restored." in text_of(done)
    wanted = {"state": "trashed", "name": "mail", "kind": "OSError: disk"}
    assert any(wanted.items() <= dict(httpx.URL(link).params).items() for link in links_of(done) if "/jobs?" in link)
    board.register_entity(Entity("conductor", "worker@host-7"))
    quiet = ask.post("/b/shop/conductors?q=host-7", {"action": "quiet", "name": "worker@host-7"})
    assert quiet.url.params["q"] == "host-7"


def test_one_conductor_is_found_among_hundreds(board: JobBoard) -> None:
    for number in range(300):
        board.register_entity(Entity("conductor", f"worker@host-{number}", {"names": ["mail"]}))
    said = text_of(console(board).get("/b/shop/conductors?q=HOST-299"))
    assert "worker@host-299" in said
    assert "worker@host-2 " not in said


def test_it_runs_where_no_handler_is(board: JobBoard) -> None:
    job = board.post("a.module.that.is.nowhere:handler", details={"model": "a.module.that.is.nowhere:Model"})
    board.trash(job, by="me", reason="nowhere.Error: bad")
    ask = console(board, *RIGHTS)
    assert "a.module.that.is.nowhere:Model" in text_of(ask.get(f"/b/shop/jobs/{job.uuid}"))
    ask.post(f"/b/shop/jobs/{job.uuid}", {"action": "restore"})
    assert job.state is JobState.UNCLAIMED
