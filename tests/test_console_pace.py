"""How fast a board gets on, and the small charts of it, which the server draws."""

from __future__ import annotations

import time

import pytest
from helpers.console import asking, text_of
from helpers.memory_seam import fresh_name

from jobboard import Entity, Posting, fetch
from jobboard.console.charting import SPANS
from jobboard.console.pace import Backlog, Tile, pace_of
from jobboard.console.sparklines import sparkline
from jobboard.operate.sampling import Bucket, Figures, Sampler


class Known(Sampler):
    """A sampler that knows these minutes, the last one of which is the present."""

    def __init__(self, *minutes: Figures | None, heard: float = 60.0, name: str | None = None) -> None:
        now = int(time.time() // 60) * 60
        first = now - 60 * (len(minutes) - 1)
        self._known = [
            Bucket(first + 60 * index, figures, {name: figures} if name else {}, heard)
            for index, figures in enumerate(minutes)
            if figures is not None
        ]

    def minutes(self, since: float) -> list[Bucket]:
        return [bucket for bucket in self._known if bucket.at + 60 > since]

    def ten_minutes(self, since: float) -> list[Bucket]:
        return []


def busy(waiting: int = 0, finished: int = 0, failed: int = 0, paused: int = 0, wait: float | None = None) -> Figures:
    figures = Figures(waiting=waiting, finished=finished, failed=failed, paused=paused)
    if wait is not None:
        figures.wait.add(wait)
    return figures


def told(sampler: Sampler, waiting: int = 0, name: str = "") -> dict[str, tuple[str | None, str]]:
    tiles = pace_of(sampler, SPANS["1h"], name, Backlog(waiting))
    return {tile.title: (tile.value, tile.note) for tile in tiles}


def test_a_new_console_says_that_nothing_was_heard_and_draws_nothing() -> None:
    for sampler in (Known(), Known(Figures(waiting=0), heard=0.0)):
        tiles = pace_of(sampler, SPANS["1h"], "", Backlog(0))
        assert [tile.course for tile in tiles] == [None] * 4
        assert [tile.value for tile in tiles] == [None, None, None, "done"]
    assert told(Known())["Throughput"] == (None, "not heard yet")
    assert told(Known(busy(waiting=5), heard=0.0), 5)["Backlog"] == (None, "5 wait")


@pytest.mark.parametrize("name", ["", "mail"])
def test_rates_are_of_what_was_heard(name: str) -> None:
    minutes = [busy(30, 10, 0, wait=2.0), None, busy(20, 20, 10, wait=40.0), busy(10, 30, 2, wait=2.0)]
    seen = told(Known(*minutes, name="mail"), 10, name)
    assert seen["Throughput"] == ("20 a minute", "in the last 5m; 60 in 1 hour")
    assert seen["Failure rate"] == ("17 %", "12 of 72 attempts")
    assert seen["Wait"][0] == "2s"
    assert seen["Backlog"] == ("done in 30s", "10 wait, 6.7 fewer a minute")
    assert told(Known(*minutes, name="mail"), 10, "other")["Failure rate"][1] == "no attempt has ended"


def test_throughput_is_that_of_now_and_says_so() -> None:
    quiet = [busy(0, 40), *[busy()] * 8]
    assert told(Known(*quiet, busy(0, 1)))["Throughput"] == ("0.2 a minute", "in the last 5m; 41 in 1 hour")
    assert told(Known(*quiet))["Throughput"] == ("0 a minute", "in the last 5m; 40 in 1 hour")
    assert told(Known(busy(0, 40), *[None] * 9))["Throughput"] == (None, "not heard lately; 40 in 1 hour")


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        ([busy(5), busy(9)], ("growing", "9 wait, 4 more a minute")),
        ([busy(9, 3), busy(9, 3)], ("done in 3m", "9 wait, as many as before")),
        ([busy(9, 3)], ("done in 3m", "9 wait")),
    ],
)
def test_a_backlog_says_when_it_is_done(minutes: list[Figures], said: tuple[str, str]) -> None:
    assert told(Known(*minutes), 9)["Backlog"] == said


@pytest.mark.parametrize(
    ("backlog", "said"),
    [
        (Backlog(9, 9), ("paused", "9 wait until a resume")),
        (Backlog(9, 0, 9), ("no conductor", "9 wait, and nobody claims them")),
        (Backlog(9, 0, 0, 9), ("limit full", "9 wait for a slot of their name's limit, and none ends")),
        (Backlog(9, 4, 5), ("not claimed", "9 wait, 4 paused, 5 without a conductor")),
        (Backlog(2, 0, 1, 1, 5), ("not claimed", "2 wait, 1 without a conductor, 1 behind a limit; 5 blocked")),
        (Backlog(9, 6), ("3 of 9 done in 1m", "9 wait, 6 paused, as many as before")),
        (Backlog(9, 0, 6), ("3 of 9 done in 1m", "9 wait, 6 without a conductor, as many as before")),
        (
            Backlog(9, 2, 3, 1),
            ("3 of 9 done in 1m", "9 wait, 2 paused, 3 without a conductor, 1 behind a limit, as many as before"),
        ),
        (Backlog(9, blocked=5), ("9 of 14 done in 3m", "9 wait, as many as before; 5 blocked")),
        (Backlog(9), ("done in 3m", "9 wait, as many as before")),
        (Backlog(0, blocked=5), ("blocked", "nothing else waits; 5 blocked")),
        (Backlog(0), ("done", "nothing waits")),
    ],
)
def test_what_nobody_claims_is_never_done(backlog: Backlog, said: tuple[str, str]) -> None:
    tiles = pace_of(Known(busy(9, 3), busy(9, 3)), SPANS["1h"], "", backlog)
    assert (tiles[-1].value, tiles[-1].note) == said


def test_the_slowest_name_says_when_a_backlog_is_done() -> None:
    minutes = Known(busy(9, 30), busy(9, 30), name="fast")
    minutes._known[0].names["slow"] = busy(4, 1)

    def done(**waits: int) -> str | None:
        return pace_of(minutes, SPANS["1h"], "", Backlog(9, claimable_of=waits))[-1].value

    assert (done(fast=9), done(fast=5, slow=4), done(fast=5, new=4)) == ("done in 18s", "done in 8m", "done in 18s")


@pytest.mark.parametrize("span", SPANS)
def test_each_span_is_drawn_in_60_points_at_most(span: str) -> None:
    tiles: list[Tile] = pace_of(Known(*[busy(7, 10)] * 60), SPANS[span], "", Backlog(7))
    assert tiles[0].course is not None
    assert 1 <= tiles[0].course.paths[0].count("L") + 1 <= 60 or tiles[0].course.paths[0].endswith("h0")


def test_lines_have_gaps_dots_and_bands() -> None:
    drawn = sparkline([[0, 10, None, 5, None]], [False, False, True, True, False])
    assert drawn is not None
    assert drawn.paths == ("M20 33L60 3M140 18h0",)
    assert drawn.bands == ((80.0, 80.0),)
    assert sparkline([[None, 0]], [True, True]) is None


@pytest.mark.parametrize(("paused", "is_shaded"), [("mail", (False, True, False)), (None, (True, True, True))])
def test_the_overview_marks_when_what_it_is_about_was_paused(
    paused: str | None, is_shaded: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with fetch(fresh_name(), "memory://") as board:
        sampler = Sampler(board, interval=3600.0)
        monkeypatch.setattr("jobboard.console.pages.overview.sampler_of", lambda _view: sampler)
        board.post_many([Posting("mail"), Posting("mail"), Posting("sms")])
        board.pause(paused)
        sampler.look()
        pages = [asking({"shop": board}).get(f"/b/shop/?name={name}") for name in ("", "mail", "sms")]
        sampler.stop(20)
    assert tuple("Shaded: it was paused." in text_of(page) for page in pages) == (False, *is_shaded[1:])
    assert ("Shaded: the board was paused." in text_of(pages[0])) is is_shaded[0]
    assert tuple(page.text.count('<rect class="pause"') for page in pages) == tuple(map(int, is_shaded))
    assert "Backlog paused 2 wait until a resume" in text_of(pages[1])
    assert "style=" not in pages[0].text


def test_the_overview_knows_which_jobs_nobody_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    with fetch(fresh_name(), "memory://") as board:
        sampler = Known(busy(3, 3), name="own")
        sampler_of_all = Sampler(board, interval=3600.0)
        monkeypatch.setattr(sampler_of_all, "minutes", sampler.minutes)
        monkeypatch.setattr("jobboard.console.pages.overview.sampler_of", lambda _view: sampler_of_all)
        names = ("paused", "gone", "served", "own", "full")
        board.post_many([Posting(name) for name in names])
        board.pause("paused")
        board.limits.set(name="full", running=1)
        board.claim(board.post("full"), "w")
        board.post("late", after=[board.post("own")])
        board.register_entity(Entity("conductor", "worker", {"names": ["served"], "concurrency": 1}, ttl=600.0))
        sampler_of_all.look()
        told = {name: text_of(asking({"shop": board}).get(f"/b/shop/?name={name}")) for name in ("", "late", *names)}
        sampler_of_all.stop(20)
    said = "Backlog 3 of 7 done in 1m 6 wait, 1 paused, 1 without a conductor, 1 behind a limit; 1 blocked"
    assert said in told[""]
    assert "Backlog limit full 1 wait for a slot of their name's limit, and none ends" in told["full"]
    assert "Backlog blocked nothing else waits; 1 blocked" in told["late"]
    assert "Backlog paused 1 wait until a resume" in told["paused"]
    assert "Backlog no conductor 1 wait, and nobody claims them" in told["gone"]
    # Nothing of it has ended, but a conductor claims it; and what a program without a conductor claims.
    assert "Backlog - 1 wait; nothing finishes" in told["served"]
    assert "Backlog done in 40s 2 wait" in told["own"]
