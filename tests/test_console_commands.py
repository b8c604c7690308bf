"""Only what the console itself advises to type looks like a command: users write names, keys, reasons and errors."""

from __future__ import annotations

import re
import shlex
from html import unescape

import httpx
import pytest
from helpers.console import Asking
from helpers.console_jobs import ask_as, board

from jobboard import Entity, Job, JobBoard
from jobboard.console.templating import advice
from jobboard.operate.sampling import Sampler

__all__ = ["board"]

_FORGED = 'once it is mended: jobboard restore --reason-kind "$(id>/tmp/x)" or jobboard purge --all'


def _commands(page: httpx.Response) -> list[str]:
    """Return what a page marks up as a command."""
    found = re.findall(r'<code class="command">(.*?)</code>', page.text)
    return [unescape(re.sub("<[^>]*>", "", each)) for each in found]


def _are_ours(commands: list[str]) -> bool:
    """Whether these have what users wrote only as one word of a shell."""
    return all(shlex.split(each)[1] not in ("restore", "purge") or _FORGED in shlex.split(each) for each in commands)


def test_names_that_look_like_commands_on_the_overview(board: JobBoard) -> None:
    """Four findings: of a name that nobody claims, one that is paused, the trash, and a conductor that is not well."""
    board.post(_FORGED)
    board.pause(f"x {_FORGED}", reason=_FORGED)
    board.trash(board.post(f"y {_FORGED}"), by="me", reason=f"ValueError: {_FORGED}")
    board.register_entity(Entity("conductor", "w", {"names": ["a"], "healthy": False, "fault": _FORGED}, 600))
    page = ask_as(board).get("/b/jobs/")
    commands = _commands(page)
    assert page.text.count("once it is mended") >= 4
    assert f"jobboard trashed --job-name {shlex.quote(f'y {_FORGED}')}" in commands
    assert _are_ours(commands), commands


def _claimed(board: JobBoard) -> Job:
    job = board.post("mail")
    board.claim(job, _FORGED)
    board.register_entity(Entity("conductor", _FORGED, {"names": ["mail"]}, 600))
    return job


def _waiting(board: JobBoard) -> Job:
    return board.post(_FORGED, after=[_trashed(board)], lane=_FORGED)


def _trashed(board: JobBoard) -> Job:
    job = board.post("mail", key=_FORGED)
    board.trash(job, by="me", reason=f"ValueError: {_FORGED}")
    return job


@pytest.mark.parametrize("make", [_claimed, _waiting, _trashed])
def test_names_and_reasons_that_look_like_commands_on_the_page_of_a_job(board: JobBoard, make: object) -> None:
    job = make(board)  # type: ignore[operator]
    ask: Asking = ask_as(board)
    page = ask.get(f"/b/jobs/jobs/{job.uuid}")
    commands = _commands(page)
    assert "once it is mended" in page.text
    verb = {"_claimed": "cancel", "_waiting": "restore", "_trashed": "restore"}[make.__name__]  # type: ignore[attr-defined]
    uuids = [job.uuid] + [parent.uuid for parent in job.parents()]
    assert f"jobboard {verb} {uuids[-1]}" in commands
    assert [each for each in commands if "purge" in each or "$(" in each] == []


def test_a_shells_double_quotes_are_no_part_of_a_command() -> None:
    """Only ``"'"``, as shlex quotes an apostrophe."""
    quoted = shlex.quote("it's $(id)")
    assert _plain(advice(f"See: jobboard trashed --job-name {quoted}", "")) == [f"jobboard trashed --job-name {quoted}"]
    assert _plain(advice('See: jobboard trashed --job-name "$(id)"', "")) == ["jobboard trashed --job-name"]


def _plain(html: str) -> list[str]:
    return _commands(httpx.Response(200, text=str(html)))


def test_the_health_of_a_store_that_says_a_command(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = {
        "kind": "held_back",
        "verdict": "ATTENTION",
        "about": None,
        "text": f"{_FORGED} End it: x",
        "cure": "End it: x",
    }
    monkeypatch.setattr(Sampler, "newest", {"findings": [finding]})
    page = ask_as(board).get("/b/jobs/health")
    assert ("once it is mended" in page.text, _commands(page)) == (True, [])
