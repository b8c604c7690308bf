"""The command that serves the console."""

from __future__ import annotations

import functools
from pathlib import Path

import httpx
import pytest
from helpers.command_line import Run, process
from helpers.serving import serving

from jobboard import JobBoard, backend
from jobboard.operate.sampling.lease import LEASE_BOOK
from jobboard.testing import eventually

pytest_plugins = ("helpers.command_fixtures",)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "lets other machines look at the boards: add --auth FILE, or --behind-proxy"),
        (["--host", "::"], "lets other machines look"),
        (["--host", "example.org"], "'example.org' is no IP address"),
        (["--allow", "release,relaese"], "--allow: there is no right 'relaese'; there are details, cancel,"),
        (
            ["--behind-proxy", "--anonymous", "look"],
            "--anonymous: there is no right 'look'; there are details, cancel,",
        ),
        (["--allow", "ann=pause"], "--allow USER=RIGHT needs to know users: by --auth or --behind-proxy"),
        (["--behind-proxy", "--allow", "ann=puase"], "--allow: there is no right 'puase'"),
        (["--anonymous", "release"], "--anonymous is for --behind-proxy: without a proxy --allow says"),
        (["--board", "memory://x"], "a memory board lives within one process"),
        (["--auth", "/none"], "does not exist"),
        (["--root-path", "jobs"], "--root-path begins with a slash: /jobs"),
        (["--allow-host", "https://ops.example.org"], "--allow-host is a host's name, such as ops.example.org, not"),
    ],
)
def test_wrong_usage_is_refused(jobboard: Run, arguments: list[str], said: str) -> None:
    assert said in jobboard("serve", *arguments, status=2)


def test_a_file_without_passwords_is_refused(jobboard: Run, tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann\n")
    assert "users: line 1 is not NAME:PASSWORD" in jobboard("serve", "--auth", str(tmp_path / "users"), status=2)


def test_a_board_that_does_not_exist_is_refused(jobboard: Run, tmp_path: Path) -> None:
    assert "there is no file" in jobboard("serve", "--board", f"sqlite:///{tmp_path}/jbos.db", status=1)


def test_a_port_that_is_taken_is_said(jobboard: Run) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "can't listen on 127.0.0.1" in jobboard("serve", "--port", str(taken.getsockname()[1]), status=1)


def test_it_serves_several_boards_until_it_is_told_to_stop(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with backend(name, f"sqlite:///{tmp_path}/jobs.db") as board:
            board.post("mail")
    uri = f"sqlite:///{tmp_path}/jobs.db"
    arguments = ["--board", f"a={uri}", "--board", uri, "--name", "b", "--root-path", "/ops/"]
    said: list[str] = []
    auth = {"JOBBOARD_CONSOLE_AUTH": "ann:secret"}
    with serving(*arguments, said=said, **auth) as url, httpx.Client(base_url=url, timeout=30) as web:
        # It counts before anybody looks.
        for name in ("a", "b"):
            with backend(name, uri) as board:
                eventually(functools.partial(_is_counted, board), 30)
        assert web.get("/").status_code == 401
        assert web.get("/", auth=("ann", "wrong")).status_code == 401
        page = web.get("/", auth=("ann", "secret"))
        assert (page.status_code, 'href="/ops/b/a/' in page.text) == (200, True)
        assert "mail" in web.get("/b/b/jobs", auth=("ann", "secret")).text
    assert said == ["wrong password of ann from 127.0.0.1"]


def _is_counted(board: JobBoard) -> bool:
    return LEASE_BOOK in [book.uuid for book in board.books()]


def test_without_a_board_it_serves_all_of_the_configuration(tmp_path: Path) -> None:
    with backend("a", f"sqlite:///{tmp_path}/jobs.db") as board:
        board.post("mail")
    text = "".join(f'[boards.{name}]\nuri = "sqlite:///{tmp_path}/jobs.db"\n' for name in ("a", "b"))
    (tmp_path / "jobboard.toml").write_text(f'default = "a"\n{text}[boards.c]\nuri = "memory://"\n')
    environment = {"JOBBOARD_CONFIG": str(tmp_path / "jobboard.toml"), "JOBBOARD_URI": ""}
    said: list[str] = []
    with serving(said=said, **environment) as url, httpx.Client(base_url=url, timeout=30) as web:
        page = web.get("/").text
        assert ('href="/b/a/"' in page, 'href="/b/b/"' in page, 'href="/b/c/"' in page) == (True, True, False)
    assert any(line.startswith("c is left out: a memory board lives") for line in said)


def test_boards_of_the_configuration_go_by_their_tables(tmp_path: Path) -> None:
    """Two tables may have one name in two stores."""
    tables = {"orders": "a.db", "mail": "b.db"}
    for file in tables.values():
        with backend("jobs", f"sqlite:///{tmp_path}/{file}") as board:
            board.post("mail")
    text = "".join(
        f'[boards.{table}]\nuri = "sqlite:///{tmp_path}/{file}"\nname = "jobs"\n' for table, file in tables.items()
    )
    (tmp_path / "jobboard.toml").write_text(text)
    environment = {"JOBBOARD_CONFIG": str(tmp_path / "jobboard.toml"), "JOBBOARD_URI": ""}
    with serving(**environment) as url, httpx.Client(base_url=url, timeout=30) as web:
        assert [f'href="/b/{table}/"' in web.get("/").text for table in (*tables, "jobs")] == [True, True, False]
        page = web.get("/b/mail/jobs").text
        assert "<title>Jobs · mail · jobboard</title>" in page
        assert [f"<bdi>{table}</bdi></a></li>" in page for table in (*tables, "jobs")] == [True, True, False]


def _may(url: str, action: str, *users: str) -> bool:
    """Ask for a change as a proxy that forwards requests of these users."""
    headers = [("Sec-Fetch-Site", "same-origin"), *(("X-Forwarded-User", user) for user in users)]
    with httpx.Client(base_url=url, headers=headers, timeout=60) as web:
        assert web.get("/b/jobs/jobs").status_code == 200
        status = web.post("/b/jobs/names", data={"action": action, "name": "mail"}).status_code
    assert status in (303, 403)
    return status == 303


def test_behind_a_proxy_who_has_no_name_has_no_rights(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/jobs.db"
    with backend("jobs", uri) as board:
        with serving("--board", uri, "--behind-proxy", "--allow", "pause", "--allow", "details,resume") as url:
            assert not _may(url, "pause")
            assert not _may(url, "pause", "")
            # A proxy that adds its header to that of the request, instead of replacing it.
            assert not _may(url, "pause", "eve", "ann")
            assert board.paused() == set()
            assert _may(url, "pause", "ann")
            assert board.paused() == {"mail"}
        with serving("--board", uri, "--behind-proxy", "--allow", "pause", "--anonymous", "resume") as url:
            assert not _may(url, "pause")
            assert not _may(url, "resume", "ann")
            assert _may(url, "resume")
            assert board.paused() == set()


def test_users_may_have_rights_of_their_own(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/jobs.db"
    (tmp_path / "users").write_text("ann:secret\nshop:secret\n")
    options = ["--auth", str(tmp_path / "users"), "--allow", "pause", "--allow", "shop=post", "--allow", "shop=resume"]
    with backend("jobs", uri) as board:
        board.post("mail")
        with serving("--board", uri, *options) as url:

            def post(user: str) -> int:
                return httpx.post(f"{url}/b/jobs/jobs", auth=(user, "secret"), json={"name": "mail"}).status_code

            def act(user: str, action: str) -> int:
                sent = {"data": {"action": action, "name": "mail"}, "headers": {"Sec-Fetch-Site": "same-origin"}}
                return httpx.post(f"{url}/b/jobs/names", auth=(user, "secret"), **sent).status_code

            assert [post("ann"), post("shop")] == [403, 201]
            assert [act(user, action) for action in ("pause", "resume") for user in ("ann", "shop")] == [
                303, 303, 403, 303
            ]  # fmt: skip
        with serving("--board", uri, "--behind-proxy", "--allow", "pause", "--allow", "shop=resume") as url:
            assert [_may(url, "resume", user) for user in ("ann", "shop")] == [False, True]
            assert not _may(url, "resume")


def test_a_user_of_its_own_rights_must_be_known(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann:secret\n")
    options = ["--board", f"sqlite:///{tmp_path}/jobs.db", "--auth", str(tmp_path / "users"), "--allow", "eve=pause"]
    result = process("serve", *options)
    assert (result.returncode, "--allow: there is no user 'eve' in --auth" in result.stderr) == (2, True)


@pytest.mark.parametrize(("mode", "warns"), [(0o644, True), (0o600, False), (0o640, False)])
def test_passwords_that_everybody_can_read_are_told(tmp_path: Path, mode: int, warns: bool) -> None:
    users = tmp_path / "users"
    users.write_text("ann:secret\n")
    users.chmod(mode)
    result = process("serve", "--board", f"sqlite:///{tmp_path}/jobs.db", "--auth", str(users), "--allow", "eve=pause")
    assert result.returncode == 2
    assert (f"every user of this host can read the passwords in {users}" in result.stderr) == warns
    assert "secret" not in result.stderr


def test_behind_a_proxy_users_of_a_file_are_known(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/jobs.db"
    (tmp_path / "users").write_text("ann:secret\n")
    with backend("jobs", uri) as board:
        job = board.post("mail")
        options = ("--behind-proxy", "--auth", str(tmp_path / "users"), "--allow", "trash")
        with serving("--board", uri, *options) as url:
            # What a client says of itself, and no proxy has removed, is not believed.
            headers = {"Sec-Fetch-Site": "same-origin", "X-Forwarded-User": "eve"}
            sent = {"data": {"action": "trash", "confirmed": "yes"}, "headers": headers}
            assert httpx.post(f"{url}/b/jobs/jobs/{job.uuid}", auth=("ann", "secret"), **sent).status_code == 200
        assert job.history[-1].who == "ann"


def test_its_help_has_examples() -> None:
    assert "jobboard serve --board sqlite:///jobs.db" in process("serve", "--help").stdout
