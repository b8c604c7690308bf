"""The Django shop of the examples: a real server, real requests, and a worker that is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.base import HOST, free_port
from servers.postgresql_servers import PostgresqlServer

import jobboard
from jobboard.testing import eventually

pytest_plugins = ("harnesses.sql_fixtures",)
pytestmark = [pytest.mark.timeout(400), pytest.mark.in_turn(1)]

FOLDER = Path(__file__).parent.parent / "examples" / "django_shop"
#: Seconds; a busy machine takes its time.
LONG = 120.0
#: Seconds until a worker that was killed has lost its claim.
EXPIRY = "2"


class Shop:
    """The processes of one shop."""

    def __init__(self, uri: str, environment: dict[str, str]) -> None:
        self.uri = uri
        self._environment = {**os.environ, **environment}
        self.port = free_port()

    def command(self, *arguments: str, **environment: str) -> None:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            **(self._options(environment) | {"stdout": subprocess.PIPE}),
            timeout=LONG,
            check=False,
        )
        assert done.returncode == 0, done.stdout

    @contextlib.contextmanager
    def process(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen([sys.executable, "manage.py", *arguments], **self._options(environment)) as started:
            try:
                yield started
            finally:
                started.kill()

    @contextlib.contextmanager
    def server(self) -> Iterator[None]:
        with self.process("runserver", "--noreload", f"{HOST}:{self.port}") as started:

            def answers() -> bool:
                assert started.poll() is None
                with contextlib.suppress(OSError):
                    return self.get("invoices")[0] == 200
                return False

            eventually(answers, within=LONG, every=0.5)
            yield

    @contextlib.contextmanager
    def worker(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        with self.process("jobboard", "conductor", "--expiry", EXPIRY, *arguments, **environment) as started:
            yield started

    def get(self, path: str) -> tuple[int, Any]:
        return self._ask(urllib.request.Request(f"http://{HOST}:{self.port}/{path}"))

    def post(self, path: str) -> tuple[int, Any]:
        return self._ask(urllib.request.Request(f"http://{HOST}:{self.port}/{path}", data=b""))

    def statuses(self, tasks: list[str]) -> set[str]:
        return {self.get(f"tasks/{task}")[1]["status"] for task in tasks}

    def _ask(self, request: urllib.request.Request) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(request, timeout=LONG) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def _options(self, environment: dict[str, str] | None = None) -> dict[str, Any]:
        log = subprocess.DEVNULL
        return {
            "cwd": FOLDER, "env": {**self._environment, **(environment or {})}, "text": True, "stdout": log,
            "stderr": subprocess.STDOUT, "stdin": log,
        }  # fmt: skip


@pytest.fixture
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    uri, environment = f"sqlite:///{tmp_path}/shop.db", {"SHOP_FILE": str(tmp_path / "shop.db")}
    if request.param == "postgresql":
        server: PostgresqlServer = request.getfixturevalue("postgresql")
        name = f"shop_{uuid.uuid4().hex}"
        with server.client() as client:
            client.autocommit = True
            client.execute(f"CREATE DATABASE {name}")
        uri = f"postgresql://postgres@{HOST}:{server.port}/{name}"
        environment = {"PGDATABASE": name, "PGHOST": HOST, "PGPORT": str(server.port), "PGUSER": "postgres"}
    made = Shop(uri, environment)
    made.command("migrate", "--run-syncdb", "--verbosity=0")
    return made


@pytest.mark.parametrize(("shop", "executor"), [("sqlite", "thread"), ("postgresql", "process")], indirect=["shop"])
def test_a_kill_of_a_worker_loses_nothing(shop: Shop, executor: str) -> None:
    with shop.server():
        made = [shop.post(f"orders/{number}") for number in range(8)]
        assert {status for status, _ in made} == {201}
        tasks = [answer["task"] for _, answer in made]
        assert shop.post("orders/99?unpaid")[0] == 500
        with jobboard.backend("jobs", shop.uri) as board:
            assert {job.uuid for job in board.iterjobs(names=["shop.tasks.send_invoice"])} == set(tasks)
            assert [job.key for job in board.iterjobs(names=["shop.tasks.thank"])] == [
                f"shop.Order/{n}" for n in range(1, 9)
            ]
        assert shop.get(f"tasks/{uuid.uuid4()}")[0] == 404

        with shop.worker("--concurrency", "2", INVOICE_SECONDS="600") as first:
            eventually(lambda: "RUNNING" in shop.statuses(tasks), within=LONG, every=0.5)
            first.send_signal(signal.SIGKILL)
            first.wait(LONG)
        assert shop.get("invoices")[1]["orders"] == []

        with shop.worker("--executor", executor) as second:
            eventually(lambda: shop.statuses(tasks) == {"SUCCESSFUL"}, within=LONG, every=0.5)
            assert shop.get("invoices")[1]["orders"] == list(range(8))
            assert max(shop.get(f"tasks/{task}")[1]["attempts"] for task in tasks) >= 2
            second.send_signal(signal.SIGTERM)
            assert second.wait(LONG) == 0


@pytest.mark.parametrize("shop", ["sqlite", "postgresql"], indirect=True)
def test_the_tests_of_the_shop_pass(shop: Shop) -> None:
    shop.command("test", "--noinput")


@pytest.mark.parametrize("shop", ["sqlite", "postgresql"], indirect=True)
def test_each_test_has_an_empty_board_and_the_test_database_can_be_dropped(shop: Shop) -> None:
    """The settings are those of the guide; Django's runner says so if it can't drop what it has made."""
    shop.command("test", "--noinput", "harnesses.django_isolation", PYTHONPATH=str(Path(__file__).parent))


@pytest.mark.parametrize("shop", ["postgresql"], indirect=True)
def test_handlers_that_are_no_tasks_survive_the_end_of_connections(shop: Shop, postgresql: PostgresqlServer) -> None:
    names = ["plain", "later", "on_loop", "elsewhere", "with_its_board", "many"]
    found = {"PYTHONPATH": str(Path(__file__).parent)}
    arguments = ("jobboard", "conductor", "harnesses.django_handlers:handlers", "--concurrency", "3")
    with jobboard.backend("jobs", shop.uri) as board, shop.process(*arguments, **found):

        def ends() -> dict[str, list[tuple[str, int, object]]]:
            jobs = {name: board.post_many([jobboard.Posting(name)] * 3) for name in names}
            for some in jobs.values():
                for job in some:
                    assert job.wait(LONG), job.name
            return {
                name: [(str(job.state), job.record.attempts, job.record.reason) for job in some]
                for name, some in jobs.items()
            }

        good = {name: [("COMPLETE", 1, None)] * 3 for name in names}
        assert ends() == good
        with postgresql.client() as client:
            client.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                [shop.uri.rpartition("/")[2]],
            )
        assert ends() == good


@pytest.mark.parametrize("shop", ["sqlite"], indirect=True)
def test_a_worker_runs_the_tasks_of_another_backend(shop: Shop) -> None:
    settings = {"PYTHONPATH": str(Path(__file__).parent), "DJANGO_SETTINGS_MODULE": "harnesses.django_backends"}
    enqueue = "Order.objects.create(number=1); send_invoice.using(backend='mail').enqueue(1)"
    imports = "from shop.models import Order; from shop.tasks import send_invoice"
    shop.command("shell", "-c", f"{imports}; {enqueue}", **settings)
    with jobboard.backend("mail", shop.uri) as board:
        [job] = board.iterjobs()
        with shop.process("jobboard", "--backend", "mail", "conductor", "--executor", "process", **settings):
            assert job.get_result(LONG) == "invoice 1 of order 1"


@pytest.mark.parametrize("shop", ["sqlite"], indirect=True)
def test_a_schedule_and_conductors_of_queues(shop: Shop) -> None:
    for _ in range(2):
        shop.command("jobboard", "schedules", "apply")
    every = ("--every", "1s", "--max-runs", "2", "--max-instances", "any")
    note = ("--task", "shop.tasks.close_day", "--args", '{"note": "so far"}')
    shop.command("jobboard", "schedule", "add", "often", *note, *every)
    shop.command("shell", "-c", "from shop.tasks import thank; thank.enqueue(1)")
    with jobboard.backend("jobs", shop.uri) as board:
        assert sorted(schedule.id for schedule in board.schedules) == ["close-day", "often"]
        [thanks] = board.iterjobs(names=["shop.tasks.thank"])

        def closed() -> list[Any]:
            return list(board.iterjobs(names=["shop.tasks.close_day"], states=[jobboard.JobState.COMPLETE]))

        with shop.worker("--queues", "default", "--with-scheduler"):
            eventually(lambda: len(closed()) == 2, within=LONG, every=0.5)
        assert {job.record.result for job in closed()} == {"0 invoices, so far"}
        assert thanks.state is jobboard.JobState.UNCLAIMED
        board.schedules.fire_now("close-day")
        with shop.worker("--queues", "mail", "--only", "shop.tasks.thank,shop.tasks.close_day"):
            assert thanks.get_result(LONG) == "thanks for order 1"
        assert len(closed()) == 2
        with shop.worker("--only", "shop.tasks.close_day"):
            eventually(lambda: len(closed()) == 3, within=LONG, every=0.5)


def test_few_lines_of_the_shop_are_about_the_board() -> None:
    """Three in the settings, and those that say more than is needed: queues, options, a schedule, the admin."""
    about = ("jobboard", "django_tasks", "TASKS", "JOBBOARD")
    lines = {path.name: path.read_text().splitlines() for path in (FOLDER / "shop").glob("*.py")}
    del lines["tests.py"]
    glue = {name: [line for line in text if any(word in line for word in about)] for name, text in lines.items()}
    assert [len(glue.pop(name)) for name in ("settings.py", "admin.py")] == [8, 2]
    # What remains is Django's own interface.
    assert all("import" in line for found in glue.values() for line in found)
