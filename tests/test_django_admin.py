"""The admin's page of jobs, and the jobs on the page of an object."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.test import Client, override_settings
from django_site import tasks
from django_site.models import Order
from helpers.counted_requests import count_requests
from helpers.django_fixtures import backend, board, migrated, run, site

from jobboard import JobBoard, Posting
from jobboard.contrib.django import JobBoardBackend, object_key
from jobboard.contrib.django.job_links import console_url, jobs_of_key, listed_jobs
from jobboard.contrib.django.models import Job

__all__ = ["backend", "board", "migrated"]

PAGE = "/admin/jobboard/job/"


def users() -> Any:
    return get_user_model().objects.all()


@pytest.fixture
def as_user(migrated: None) -> Iterator[Callable[..., Client]]:
    """Log in as a user with these permissions."""

    def log_in(*permissions: str, **options: Any) -> Client:
        from django.contrib.auth.models import Permission

        users().delete()
        user = get_user_model().objects.create_user("ann", password="p", **options)
        for name in permissions:
            user.user_permissions.add(Permission.objects.get(codename=name))
        client = Client()
        client.force_login(user)
        return client

    yield log_in
    users().delete()


def uuids(page: str) -> list[str]:
    return re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", page)


def test_only_staff_with_the_permission_sees_jobs(backend: JobBoardBackend, as_user: Callable[..., Client]) -> None:
    assert Client().get(PAGE).status_code == 302
    assert as_user("view_job").get(PAGE).status_code == 302
    without = as_user(is_staff=True)
    assert without.get(PAGE).status_code == 403
    assert PAGE not in without.get("/admin/").content.decode()
    allowed = as_user("view_job", is_staff=True)
    assert allowed.get(PAGE).status_code == 200
    assert PAGE in allowed.get("/admin/").content.decode()
    assert allowed.get(f"{PAGE}add/").status_code == 404
    assert as_user(is_staff=True, is_superuser=True).get(PAGE).status_code == 200


def test_the_page_lists_jobs_by_task_state_and_key(
    backend: JobBoardBackend, board: JobBoard, as_user: Callable[..., Client]
) -> None:
    client = as_user("view_job", is_staff=True)
    one = tasks.add.using(key="order/1").enqueue("secret")
    two = tasks.add.using(key="order/2", queue_name="mail").enqueue(2)
    mail = tasks.mail.enqueue("<b>you</b>")
    failed = tasks.fail.enqueue("<b>no</b>")
    board.trash(failed.id, by="me", reason="<b>broken</b>")

    def shown(**query: str) -> list[str]:
        return sorted(uuids(client.get(PAGE, query).content.decode()))

    assert shown() == sorted([one.id, two.id, mail.id])
    assert shown(task="django_site.tasks.add") == sorted([one.id, two.id])
    assert shown(task="django_site.tasks.add@mail") == [two.id]
    assert shown(key="order/1") == [one.id]
    assert shown(state="trashed") == [failed.id]
    assert shown(state="claimed") == []
    trash = client.get(PAGE, {"state": "trashed"}).content.decode()
    assert "&lt;b&gt;broken" in trash
    assert "secret" not in client.get(PAGE).content.decode()


def test_it_says_what_jobs_wait_for_and_their_lanes(
    backend: JobBoardBackend, board: JobBoard, as_user: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    board.limits.set(lane="tenant:*", running=1)
    first, second = board.post_many([Posting("report", lane="tenant:<b>") for _ in range(2)])
    child = board.post("report", after=[first])
    client, sent = as_user("view_job", is_staff=True), count_requests(board, monkeypatch)
    page = client.get(PAGE).content.decode()
    rows = {uuids(row)[0]: re.findall(r"<td>([^<]*)</td>", row)[1:4] for row in page.split("<tr>") if uuids(row)}
    lane = "tenant:&lt;b&gt;"
    assert rows == {
        first.uuid: ["UNCLAIMED", "", lane],
        second.uuid: ["BLOCKED", f"lane {lane}", lane],
        child.uuid: ["BLOCKED", "parents", ""],
    }
    assert sent == ["page"]


def test_wrong_filters_are_told(backend: JobBoardBackend, as_user: Callable[..., Client]) -> None:
    client = as_user("view_job", is_staff=True)
    for query in ({"state": "lost"}, {"after": "nonsense"}, {"backend": "none"}):
        answer = client.get(PAGE, query)
        assert (answer.status_code, b"errornote" in answer.content) == (200, True)


def test_a_board_that_is_away_is_told(migrated: None, as_user: Callable[..., Client]) -> None:
    with site(uri="redis://127.0.0.1:1"):
        answer = as_user("view_job", is_staff=True).get(PAGE)
        assert (answer.status_code, b"errornote" in answer.content) == (200, True)


def test_jobs_link_to_the_console(backend: JobBoardBackend, board: JobBoard, as_user: Callable[..., Client]) -> None:
    result = tasks.add.enqueue(1)
    client = as_user("view_job", is_staff=True)
    link = f'href="/console/b/jobs/jobs/{result.id}"'
    assert link not in client.get(PAGE).content.decode()
    for setting in ("/console/b/jobs", "/console/b/jobs/", {"default": "/console/b/jobs"}):
        with override_settings(JOBBOARD_CONSOLE_URL=setting):
            assert link in client.get(PAGE).content.decode()
    with override_settings(JOBBOARD_CONSOLE_URL={"mail": "/mail"}):
        assert console_url("default", result.id) is None
    with override_settings(JOBBOARD_CONSOLE_URL=7), pytest.raises(ImproperlyConfigured, match="JOBBOARD_CONSOLE_URL"):
        console_url("default", result.id)


def test_pages_are_bounded(backend: JobBoardBackend, board: JobBoard, as_user: Callable[..., Client]) -> None:
    jobs = board.post_many([Posting("report", key=f"{number:04}") for number in range(1300)])
    client, seen, link = as_user("view_job", is_staff=True), [], PAGE
    for _ in range(3):
        page = client.get(link).content.decode()
        seen += uuids(page)
        found = re.search(r'href="(\?[^"]*after=[^"]*)"', page)
        assert found is not None
        link = PAGE + found[1].replace("&amp;", "&")
    assert seen == [job.uuid for job in jobs[:150]]
    # The only one that fits is behind what is read for a page.
    rare = listed_jobs("default", key="1299")
    assert rare.lines == []
    assert [line.uuid for line in listed_jobs("default", key="1299", after=rare.next).lines] == [jobs[1299].uuid]


def test_an_objects_page_shows_its_jobs(
    backend: JobBoardBackend, board: JobBoard, as_user: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    order, other = Order.objects.create(number=1), Order.objects.create(number=100)
    key = object_key(order)
    assert key == f"django_site.Order/{order.pk}"
    done = tasks.add.using(key=key).enqueue(1)
    run(board, done)
    live, mail = tasks.add.using(key=key).enqueue(1), tasks.mail.using(key=key).enqueue("you")
    by_method = tasks.add.using(key="order/100").enqueue(2)
    tasks.fail.using(key=key).enqueue()
    client = as_user("view_order", "view_job", is_staff=True)

    def page_of(each: Order) -> str:
        return client.get(f"/admin/django_site/order/{each.pk}/change/").content.decode()

    asked = count_requests(board, monkeypatch)
    assert len(jobs_of_key("default", [tasks.add, tasks.mail], key).lines) == 3
    # Two tasks, with the names of two queues beside their own.
    assert sorted(asked) == 6 * ["find"] + ["page"]
    assert sorted(uuids(page_of(order))) == sorted([done.id, live.id, mail.id])
    assert uuids(page_of(other)) == [by_method.id]
    changing = as_user("change_order", "view_job", is_staff=True)
    assert live.id in changing.get(f"/admin/django_site/order/{order.pk}/change/").content.decode()
    unseen = as_user("view_order", is_staff=True).get(f"/admin/django_site/order/{order.pk}/change/").content.decode()
    assert uuids(unseen) == []
    adding = as_user("add_order", "view_job", is_staff=True).get("/admin/django_site/order/add/")
    assert (adding.status_code, b"There are no such jobs" in adding.content) == (200, False)


def test_an_object_that_is_not_saved_has_no_key() -> None:
    with pytest.raises(ValueError, match=r"django_site\.Order is not saved yet"):
        object_key(Order())


def test_the_model_of_jobs_asks_no_database(migrated: None) -> None:
    assert list(Job.objects.all()) == []
    out = StringIO()
    call_command("dumpdata", "jobboard", stdout=out)
    assert json.loads(out.getvalue()) == []
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
