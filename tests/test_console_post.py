"""The console posts jobs: by a form, once however often it is sent, and for programs in any language by JSON."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers.console import Asking, fields_of, links_of, served_app, text_of
from helpers.console_jobs import ask_as, board, on_both

from jobboard import BoardUnavailable, JobBoard, JobPriority, JobState
from jobboard.console import RIGHTS, allow, app
from jobboard.console.basic_auth import BasicAuth
from jobboard.validation import new_uuid

__all__ = ["board"]

_FORM, _JOBS = "/b/jobs/names/post", "/b/jobs/jobs"
_GUIDE = Path(__file__).parent.parent / "doc/guides/console.rst"
_MARKUP = "<script>alert(1)</script>"


def _check(name: str, details: dict[str, Any]) -> None:
    if "order" not in details:
        raise ValueError(f"{name} needs an order")


class TestForm:
    @on_both
    def test_a_job_is_posted_as_the_form_says_and_shown(self, board: JobBoard) -> None:
        told: list[tuple[Any, ...]] = []
        ask = ask_as(board, "post", on_action=lambda *action: told.append(action))
        form = fields_of(ask.get(_FORM, params={"name": "mail"}))
        assert form | {"uuid": ""} == {
            "uuid": "", "name": "mail", "key": "", "lane": "", "priority": "normal", "delay": "", "details": "{}"
        }  # fmt: skip
        sent = {"key": "order/1", "lane": "tenant:1", "priority": "very_high", "delay": "1h30m"}
        page = ask.post(_FORM, form | sent | {"details": '{"to": "ann", "n": [1, 2.5, null]}'})
        (job,) = board.iterjobs()
        assert str(page.url).endswith(f"{_JOBS}/{job.uuid}")
        assert job.uuid == form["uuid"]
        assert job.details == {"to": "ann", "n": [1, 2.5, None]}
        assert (job.name, job.key, job.lane, job.priority) == ("mail", "order/1", "tenant:1", JobPriority.VERY_HIGH)
        assert job.record.run_at is not None
        assert (job.record.run_at - job.created_on).total_seconds() == pytest.approx(5400, abs=1)
        assert told == [("ann", "post", [job.uuid])]

    def test_the_same_form_sent_twice_posts_once_and_another_one_posts_another(self, board: JobBoard) -> None:
        ask = ask_as(board, "post")
        form = fields_of(ask.get(_FORM)) | {"name": "mail", "details": '{"n": 1}', "delay": "60"}
        pages = [ask.post(_FORM, form) for _ in range(2)]
        assert [job.uuid for job in board.iterjobs()] == [form["uuid"]]
        assert pages[0].url == pages[1].url
        ask.post(_FORM, fields_of(ask.get(_FORM)) | {"name": "mail"})
        assert len(list(board.iterjobs())) == 2

    @pytest.mark.parametrize("change", [{"details": '{"n": 2}'}, {"name": "print"}, {"key": "x"}, {"priority": "low"}])
    def test_a_form_that_was_sent_before_says_so_with_other_values_and_can_be_sent_again(
        self, board: JobBoard, change: dict[str, str]
    ) -> None:
        ask = ask_as(board, "post")
        form = fields_of(ask.get(_FORM)) | {"name": "mail", "details": '{"n": 1}'}
        ask.post(_FORM, form)
        page = ask.post(_FORM, form | change)
        assert page.status_code == 409
        assert "this form was sent before, with other values" in text_of(page)
        assert f"{_JOBS}/{form['uuid']}" in links_of(page)
        assert len(list(board.iterjobs())) == 1
        anew = fields_of(page)
        assert {name: anew[name] for name in change} == change
        ask.post(_FORM, anew)
        assert {job.uuid for job in board.iterjobs()} == {form["uuid"], anew["uuid"]}

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"details": "{"}, "what the details say is no JSON that can be read"),
            ({"details": "[1]"}, "what the details say must be a JSON object"),
            ({"details": "NaN"}, "JSON has no number NaN"),
            ({"details": "[" * 20_000}, "is no JSON that can be read"),
            ({"name": ""}, "name must"),
            ({"name": "x" * 300}, "name is 300 bytes"),
            ({"lane": "a:"}, "lane must not end in a colon"),
            ({"delay": "soon"}, "'soon' is no time span"),
            ({"priority": "best"}, "unknown priority 'best'"),
            ({"details": '{"n": 99999999999999999999999999}'}, "n can't be stored"),
        ],
    )
    def test_what_can_not_be_posted_is_told_and_kept_in_the_form(
        self, board: JobBoard, change: dict[str, str], said: str
    ) -> None:
        ask = ask_as(board, "post")
        form = fields_of(ask.get(_FORM, params={"name": "mail"})) | change
        page = ask.post(_FORM, form)
        assert page.status_code == 400
        assert "Nothing was posted: " in text_of(page)
        assert said in text_of(page)
        assert fields_of(page) | {"priority": ""} == form | {"priority": ""}
        assert list(board.iterjobs()) == []

    def test_a_key_that_is_taken_leads_to_its_job(self, board: JobBoard) -> None:
        job = board.post("mail", key="order/1")
        ask = ask_as(board, "post")
        page = ask.post(_FORM, fields_of(ask.get(_FORM)) | {"name": "mail", "key": "order/1"})
        assert page.status_code == 409
        assert f"{_JOBS}/{job.uuid}" in links_of(page)
        assert len(list(board.iterjobs())) == 1

    def test_details_are_checked_as_the_app_says(self, board: JobBoard) -> None:
        ask = ask_as(board, "post", check_details=_check)
        form = fields_of(ask.get(_FORM)) | {"name": "mail"}
        page = ask.post(_FORM, form)
        assert (page.status_code, "Nothing was posted: mail needs an order." in text_of(page)) == (400, True)
        assert ask.post(_FORM, form | {"details": '{"order": 1}'}).status_code == 200
        assert len(list(board.iterjobs())) == 1

    def test_pages_of_a_name_lead_to_it_with_the_right_only(self, board: JobBoard) -> None:
        board.post("mail")
        for page in ("", "jobs"):
            for ask, is_there in ((ask_as(board, "post"), True), (ask_as(board), False)):
                links = links_of(ask.get(f"/b/jobs/{page}", params={"name": "mail"}))
                assert (f"{_FORM}?name=mail" in links) is is_there
        assert _FORM in links_of(ask_as(board, "post").get("/b/jobs/names"))

    def test_without_the_right_or_from_another_site_nothing_is_posted(self, board: JobBoard) -> None:
        reader = ask_as(board, *(set(RIGHTS) - {"post"}))
        form = {"name": "mail", "uuid": new_uuid()}
        assert reader.get(_FORM).status_code == 403
        assert reader.post(_FORM, form).status_code == 403
        anybody = ask_as(board, *RIGHTS)
        for headers in ({}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}):
            assert anybody.post(_FORM, form, headers=headers).status_code == 403
        assert anybody.post(_FORM, form | {"uuid": "x"}).status_code == 400
        assert anybody.post(_FORM, form | {"details": "x" * 70_000}).status_code == 413
        assert list(board.iterjobs()) == []

    def test_markup_is_shown_as_text(self, board: JobBoard) -> None:
        ask = ask_as(board, "post")
        form = fields_of(ask.get(_FORM, params={"name": _MARKUP}))
        assert form["name"] == _MARKUP
        page = ask.post(_FORM, form | {"details": f"</textarea>{_MARKUP}", "key": _MARKUP, "lane": _MARKUP})
        assert (page.status_code, _MARKUP in page.text) == (400, False)


def _send(ask: Asking, job: object, **options: Any) -> httpx.Response:
    content = job if isinstance(job, bytes) else json.dumps(job).encode()
    headers = {"Content-Type": "application/json"} | options.pop("headers", {})
    return ask.ask("POST", _JOBS, content=content, headers=headers, **options)


class TestJson:
    @on_both
    def test_a_program_posts_a_job_and_gets_its_uuid(self, board: JobBoard) -> None:
        told: list[tuple[Any, ...]] = []
        ask = ask_as(board, "post", on_action=lambda *action: told.append(action))
        answer = _send(ask, {"name": "mail", "details": {"to": "ann"}})
        (job,) = board.iterjobs()
        assert (answer.status_code, answer.json()) == (201, {"uuid": job.uuid})
        assert answer.headers["Location"] == f"{_JOBS}/{job.uuid}"
        assert (job.name, job.details) == ("mail", {"to": "ann"})
        assert told == [("ann", "post", [job.uuid])]

    def test_it_may_say_what_the_command_line_may(self, board: JobBoard) -> None:
        at = datetime(2030, 1, 31, 9, tzinfo=UTC)
        options = {
            "key": "order/1", "lane": "tenant:1", "priority": "high", "max_attempts": 3, "run_at": at.isoformat(),
            "key_for": "1h", "start_by": "2031-01-31T09:00:00Z", "uuid": new_uuid(),
        }  # fmt: skip
        assert _send(ask_as(board, "post"), {"name": "mail"} | options).json() == {"uuid": options["uuid"]}
        (job,) = board.iterjobs()
        assert (job.key, job.lane, job.priority, job.max_attempts) == ("order/1", "tenant:1", JobPriority.HIGH, 3)
        assert (job.record.state, job.record.run_at) == (JobState.DELAYED, at)
        replaced = {"name": "mail", "key": "order/1", "lane": "tenant:1", "if_exists": "replace", "delay": 0}
        assert _send(ask_as(board, "post", "cancel"), replaced).json() == {"uuid": job.uuid}
        assert next(board.iterjobs()).record.state is JobState.UNCLAIMED

    def test_a_retry_with_its_uuid_posts_once(self, board: JobBoard) -> None:
        sent = {"name": "mail", "details": {"n": 1}, "uuid": new_uuid()}
        answers = [_send(ask_as(board, "post"), sent) for _ in range(3)]
        assert [(answer.status_code, answer.json()) for answer in answers] == [(201, {"uuid": sent["uuid"]})] * 3
        assert len(list(board.iterjobs())) == 1

    def test_a_post_whose_outcome_is_unknown_is_answered_with_the_uuid_to_retry_with(
        self, board: JobBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        post_many = board.post_many

        def lose_the_answer(*arguments: Any, **options: Any) -> None:
            post_many(*arguments, **options)
            raise BoardUnavailable("no answer")

        with monkeypatch.context() as patched:
            patched.setattr(board, "post_many", lose_the_answer)
            answer = _send(ask_as(board, "post"), {"name": "mail"})
        assert (answer.status_code, answer.json()["error"]) == (503, "no answer")
        again = _send(ask_as(board, "post"), {"name": "mail", "uuid": answer.json()["uuid"]})
        assert again.status_code == 201
        assert [job.uuid for job in board.iterjobs()] == [again.json()["uuid"]]

    @pytest.mark.parametrize(
        ("sent", "said"),
        [
            (b"", "the body is no JSON that can be read"),
            (b"{", "the body is no JSON that can be read"),
            (b"\xff", "the body is no JSON that can be read"),
            (b'{"name": NaN}', "JSON has no number NaN"),
            (b"[" * 100_000, "the body is no JSON that can be read"),
            ([], "a job must be a JSON object"),
            ({}, "the job has no name"),
            ({"name": ""}, "name must"),
            ({"name": 1}, "name must"),
            ({"name": "mail", "detials": {}}, "a job has no 'detials'; it has name, details, uuid, key,"),
            ({"name": "mail", "details": []}, "details must be a JSON object"),
            ({"name": "mail", "uuid": "x"}, "not a uuid: 'x'"),
            ({"name": "mail", "uuid": 7}, "uuid must be a str"),
            ({"name": "mail", "delay": "soon"}, "'soon' is no time span"),
            ({"name": "mail", "delay": [1]}, "delay must"),
            ({"name": "mail", "run_at": "monday"}, "monday"),
            ({"name": "mail", "run_at": "2030-01-31T09:00"}, "run_at must"),
            ({"name": "mail", "run_at": 5}, "run_at must"),
            ({"name": "mail", "priority": 9}, "priority must"),
            ({"name": "mail", "if_exists": "x"}, "if_exists must"),
            ({"name": "mail", "lane": "a*"}, "lane must"),
            ({"name": "mail", "key": {}}, "key must"),
            ({"name": "mail", "max_attempts": "many"}, "max_attempts must"),
            ({"name": "mail", "details": {"n": 10**30}}, "n can't be stored"),
        ],
    )
    def test_what_can_not_be_posted_is_told_in_a_sentence(self, board: JobBoard, sent: object, said: str) -> None:
        answer = _send(ask_as(board, "post"), sent)
        assert (answer.status_code, list(answer.json())) == (400, ["error"])
        assert said in answer.json()["error"]
        assert list(board.iterjobs()) == []

    def test_a_key_that_is_taken_names_its_job(self, board: JobBoard) -> None:
        job = board.post("mail", key="order/1")
        answer = _send(ask_as(board, "post"), {"name": "mail", "key": "order/1"})
        assert (answer.status_code, answer.json()["has_key"]) == (409, job.uuid)
        kept = _send(ask_as(board, "post"), {"name": "mail", "key": "order/1", "if_exists": "keep"})
        assert (kept.status_code, kept.json()) == (201, {"uuid": job.uuid})

    def test_details_are_checked_as_the_app_says(self, board: JobBoard) -> None:
        ask = ask_as(board, "post", check_details=_check)
        answer = _send(ask, {"name": "mail"})
        assert (answer.status_code, answer.json()) == (400, {"error": "mail needs an order"})
        assert _send(ask, {"name": "mail", "details": {"order": 1}}).status_code == 201

    def test_large_details_are_taken_and_larger_ones_refused(self, board: JobBoard) -> None:
        ask = ask_as(board, "post")
        assert _send(ask, {"name": "mail", "details": {"text": "x" * 400_000}}).status_code == 201
        answer = _send(ask, {"name": "mail", "details": {"text": "x" * 600_000}})
        assert (answer.status_code, "details" in answer.json()["error"]) == (400, True)
        answer = _send(ask, {"name": "mail", "details": {"text": "x" * 1_100_000}})
        assert (answer.status_code, answer.json()) == (413, {"error": "JSON may have 1048576 bytes"})
        assert len(list(board.iterjobs())) == 1

    def test_who_may_not_is_told_in_json(self, board: JobBoard) -> None:
        sent = {"name": "mail"}
        answer = _send(ask_as(board, *(set(RIGHTS) - {"post"})), sent)
        error = f"you lack the right 'post' here: to {RIGHTS['post']}"
        assert (answer.status_code, answer.json()) == (403, {"error": error})
        # It is not even read.
        assert _send(ask_as(board), b"x" * 2_000_000).status_code == 403
        stranger = Asking(app({"jobs": board}, access=lambda request: None))
        assert _send(stranger, sent).json() == {"error": "you may not look at this console"}
        ask = ask_as(board, "post")
        assert "does not answer to the host" in _send(ask, sent, headers={"Host": "evil.example"}).json()["error"]
        assert ask.ask("POST", "/b/none/jobs", json=sent).status_code == 404
        assert ask.ask("POST", "/b/none/jobs", json=sent).json() == {"error": "there is no such board in this console"}
        assert list(board.iterjobs()) == []

    def test_a_page_of_another_site_can_not_post(self, board: JobBoard) -> None:
        ask = ask_as(board, *RIGHTS)
        strangers = [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}, {"Origin": "null"}]
        for headers in strangers:
            assert _send(ask, {"name": "mail"}, headers=headers).status_code == 403
        # What a form of any site can send without being asked is none.
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
            assert _send(ask, {"name": "mail"}, headers={"Content-Type": kind}).status_code == 403
        asked = ask.ask("OPTIONS", _JOBS, headers={"Origin": "http://evil.example"})
        assert not [name for name in asked.headers if name.startswith("access-control")]
        assert list(board.iterjobs()) == []

    def test_no_other_page_takes_json(self, board: JobBoard) -> None:
        """They are asked from the console's own pages only, and JSON comes from programs, too."""
        board.post("mail")
        ask = ask_as(board, *RIGHTS)
        for page in (
            "names",
            "lanes",
            "lanes/limit",
            "names/post",
            "health",
            "schedules",
            "conductors",
            "bulk",
        ):
            answer = ask.ask("POST", f"/b/jobs/{page}", json={"action": "pause", "name": "mail"})
            assert (answer.status_code, list(answer.json())) == (415, ["error"]), page
        assert ask.post(_JOBS, {"name": "mail"}).status_code == 405
        assert ask.ask("POST", "/b/jobs/overview", json={}).status_code in (404, 405)
        assert len(list(board.iterjobs())) == 1

    def test_the_example_of_the_guide_posts_a_job_and_asks_how_it_stands(self, board: JobBoard, tmp_path: Path) -> None:
        if shutil.which("curl") is None:
            pytest.skip("the package curl is missing: apt-get install curl")
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login shop password secret\n")
        (example,) = re.findall(r"^\.\. code-block:: shell\n\n((?:    .*\n)*)", _GUIDE.read_text(), re.MULTILINE)
        console = app({"jobs": board}, access=allow("post", "details"))
        with served_app(BasicAuth(console, {"shop": "secret"})) as url:
            command = textwrap.dedent(example).replace("http://127.0.0.1:8910", url)
            answers = subprocess.check_output(["bash", "-c", command], cwd=tmp_path, text=True, timeout=60)
        (job,) = board.iterjobs()
        posted, told = map(json.loads, answers.replace("}{", "}\n{").splitlines())
        assert posted == {"uuid": job.uuid}
        assert (told["uuid"], told["state"], told["details"]) == (job.uuid, "UNCLAIMED", {"to": "ann"})
        assert (job.name, job.details) == ("mail", {"to": "ann"})

    def test_with_names_and_passwords_each_post_has_its_user(self, board: JobBoard) -> None:
        told: list[str] = []
        inner = app({"jobs": board}, access=allow("post"), on_action=lambda who, *_: told.append(who))
        ask = Asking(BasicAuth(inner, {"shop": "secret"}, delay=0))
        assert _send(ask, {"name": "mail"}).json() == {"error": "name and password, please"}
        wrong = _send(ask, {"name": "mail"}, auth=httpx.BasicAuth("shop", "x"))
        assert (wrong.status_code, wrong.json()) == (401, {"error": "name and password, please"})
        assert wrong.headers["WWW-Authenticate"].startswith("Basic")
        token = base64.b64encode(b"shop:secret").decode()
        assert _send(ask, {"name": "mail"}, headers={"Authorization": f"Basic {token}"}).status_code == 201
        assert told == ["shop"]
        assert len(list(board.iterjobs())) == 1
