"""The findings about conductors: those that went away, and those whose slots one name has."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from helpers.counted_requests import count_requests
from helpers.memory_board import board

from jobboard import Conductor, Entity, Handlers, JobBoard, Posting
from jobboard.operate.overview import overview
from jobboard.operate.status import status
from jobboard.operate.verdict import Limits
from jobboard.operate.views import entity_view
from jobboard.testing import clock_of, eventually, memory_board

__all__ = ["board"]

#: Everything is too late at once.
NONE = Limits(wait=0, run=0, unhandled=-1, overdue=-1)


def conductor(board: JobBoard, *names: str, **told: Any) -> None:
    board.register_entity(Entity("conductor", "worker", {"names": list(names), "concurrency": 2, **told}, 600))


def found(board: JobBoard, limits: Limits | None = None) -> list[tuple[str, str, str | None]]:
    return [(each["verdict"], each["kind"], each["about"]) for each in status(board, limits)["findings"]]


def gone(board: JobBoard, name: str, *names: str, **told: Any) -> None:
    """Register a conductor that is not heard of again."""
    board.register_entity(Entity("conductor", name, {"names": list(names), "uptime": 60, **told}, ttl=0.001))
    eventually(lambda: not next(entity for entity in board.entities() if entity.name == name).alive)


def test_a_conductor_that_went_away_with_jobs_is_named_until_it_holds_none(board: JobBoard) -> None:
    conductor(board, "a")
    board.post_many([Posting("a")] * 3)
    jobs = board.claim_next("dead@host:7", limit=2, expiry=600)
    assert found(board) == [], "nobody of that name was ever registered"
    gone(board, "dead@host:7", "a")
    gone(board, "idle@host:8", "a")
    assert found(board) == [("ATTENTION", "conductor_gone", "dead@host:7")]
    text = status(board)["findings"][0]["text"]
    assert text.startswith(
        "dead@host:7 was last heard of 0s ago, and did not stop in good order. It holds 2 jobs, by claims "
    )
    assert text.endswith(" with: jobboard release --owner dead@host:7")
    for job in jobs:
        board.release(job)
    assert found(board) == []


def test_one_that_may_hold_more_jobs_than_were_read_is_told_so(board: JobBoard) -> None:
    conductor(board, "a")
    board.post_many([Posting("a")] * 101)
    board.claim_next("dead@host:7", limit=101, expiry=600)
    gone(board, "dead@host:7", "a")
    assert "It holds 100 or more jobs, by claims " in status(board)["findings"][0]["text"]


def test_a_conductor_that_went_away_is_named_while_jobs_wait_until_another_stands_in(board: JobBoard) -> None:
    conductor(board, "a", "b", "c", uptime=3600)
    for name in ("first", "second", "third"):
        gone(board, name, "a", "b")
    board.post_many([Posting("a"), Posting("c")])
    assert [about for _, kind, about in found(board, NONE) if kind == "conductor_gone"] == ["third", "second", "first"]
    assert not any(kind == "conductor_gone" for _, kind, _ in found(board)), "it waits no minute yet"
    text = next(each["text"] for each in status(board, NONE)["findings"] if each["kind"] == "conductor_gone")
    assert " Jobs that it ran wait ('a'), and no conductor has begun in its place: start one. See: " in text
    for number, names in enumerate([["a", "b"], ["a"], ["b", "a", "d"]]):
        board.register_entity(Entity("conductor", f"new {number}", {"names": names, "uptime": 0}, ttl=600))
    # One of the three has no handler for b: it stands in for none.
    assert [about for _, kind, about in found(board, NONE) if kind == "conductor_gone"] == ["first"]
    gone(board, "newest", "a", "b", uptime=0)
    assert [about for _, kind, about in found(board, NONE) if kind == "conductor_gone"] == ["newest"], (
        "it did, and fell"
    )
    board.pause("a")
    assert not any(kind == "conductor_gone" for _, kind, _ in found(board, NONE))


def test_of_many_conductors_that_went_away_those_with_jobs_come_first(board: JobBoard) -> None:
    for number in range(8):
        gone(board, f"w{number}", "a")
    board.post_many([Posting("a")] * 2)
    board.claim_next("w0", expiry=600)
    names = [about for _, kind, about in found(board, NONE) if kind == "conductor_gone"]
    assert names == ["w0", "w7", "w6", "w5", "w4"]


def crew(board: JobBoard, *running: dict[str, int], names: tuple[str, ...] = ("hog", "mail", "sms")) -> None:
    for number, each in enumerate(running):
        told = {"names": list(names), "concurrency": 2, "running": sum(each.values()), "running_names": each}
        board.register_entity(Entity("conductor", f"w{number}", told, 600))


def test_one_name_has_all_slots_while_jobs_of_others_wait(board: JobBoard) -> None:
    board.post_many([Posting("hog"), Posting("mail"), Posting("sms"), Posting("mail")])
    crew(board, {"hog": 2}, {"hog": 2}, {"hog": 2})
    assert not any(kind == "one_name" for _, kind, _ in found(board)), "they wait no minute yet"
    assert [(verdict, about) for verdict, kind, about in found(board, NONE) if kind == "one_name"] == [
        ("ATTENTION", "hog")
    ]
    text = next(each["text"] for each in status(board, NONE)["findings"] if each["kind"] == "one_name")
    assert text.startswith("Jobs named 'hog' have all 6 slots of 3 conductors, while ")
    assert ", and jobs of 1 more. See them with: jobboard ls --state claimed --job-name hog. " in text
    assert text.endswith(": jobboard limits set --job-name hog --running 3")


@pytest.mark.parametrize(
    "running",
    [
        [{"hog": 2}, {"hog": 1}],
        [{"hog": 2}, {"hog": 1, "mail": 1}],
        [{"hog": 2}, {"sms": 2}],
    ],
    ids=["a free slot", "another name", "two names"],
)
def test_slots_that_one_name_does_not_have(board: JobBoard, running: list[dict[str, int]]) -> None:
    board.post_many([Posting("mail"), Posting("hog")])
    crew(board, *running)
    assert not any(kind == "one_name" for _, kind, _ in found(board, NONE))


def test_slots_of_one_name_that_keep_nobody_waiting(board: JobBoard) -> None:
    board.post_many([Posting("hog"), Posting("hog"), Posting("mail")])
    crew(board, {"hog": 2}, {"hog": 2}, names=("hog",))
    assert not any(kind == "one_name" for _, kind, _ in found(board, NONE)), "none of these conductors claims mail"
    crew(board, {"hog": 2}, {"hog": 2})
    board.pause("mail")
    assert not any(kind == "one_name" for _, kind, _ in found(board, NONE))
    board.resume("mail")
    assert any(kind == "one_name" for _, kind, _ in found(board, NONE))
    board.register_entity(Entity("conductor", "older", {"names": ["mail"], "concurrency": 8, "running": 8}, 600))
    assert not any(kind == "one_name" for _, kind, _ in found(board, NONE)), "nobody knows what it runs"


def test_a_conductor_tells_which_names_have_its_slots(board: JobBoard) -> None:
    handlers, let_go = Handlers(), threading.Event()
    for name in ("hog", "mail", "sms"):
        handlers.add(name, lambda job: bool(let_go.wait(60)))
    conductor = Conductor("worker", board, handlers, concurrency=3, expiry=3)
    conductor.start()
    try:
        board.post_many([Posting("hog"), Posting("hog"), Posting("sms")])

        def told() -> Any:
            return next(iter(board.entities())).metadata.get("running_names")

        eventually(lambda: told() == {"hog": 2, "sms": 1}, within=30)
    finally:
        let_go.set()
        conductor.stop()


def test_who_holds_what_costs_one_request_if_a_conductor_went_away(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cost() -> int:
        sent.clear()
        overview(board)
        return len(sent)

    sent = count_requests(board, monkeypatch)
    conductor(board, "a")
    assert cost() == 8
    for number in range(3):
        gone(board, f"dead {number}", "a")
    assert cost() == 8, "nothing is claimed"
    board.post_many([Posting("a") for _ in range(150)])
    board.claim_next("dead 0", limit=150, expiry=600)
    assert cost() == 9
    assert [one.held for one in overview(board).gone] == [0, 0, 100]


def silent(
    board: JobBoard, name: str, *names: str, kind: str = "conductor", pid: object = None, then: float = 0
) -> None:
    """Register a participant that tells of itself every ten seconds, and let some pass."""
    told = {"names": list(names), "uptime": 60, "host": "vm", "pid": pid}
    board.register_entity(Entity(kind, name, told, ttl=40))
    clock_of(board).move(then)


def test_those_that_fell_silent_together_are_waited_for() -> None:
    with memory_board() as board:
        silent(board, "w2", "a", then=3)
        silent(board, "clock", kind="scheduler", then=2)
        silent(board, "w1", "a", then=3)
        silent(board, "w0", "a", then=55)
        assert found(board) == [], "there is nothing to do"
        board.post_many([Posting("a")] * 4)
        board.claim_next("w1", limit=2, expiry=90)
        clock_of(board).move(1)
        kinds = {kind for _, kind, _ in found(board)}
        assert kinds == {"silent", "no_conductor"}, "nothing of w1 alone, which holds two"
        text = next(each["text"] for each in status(board)["findings"] if each["kind"] == "silent")
        assert text.startswith("clock, w0, w1 and 1 more were last heard of at about the same moment, 56s ago: ")
        assert "They hold 2 jobs, by claims that end within 1m" in text
        assert "release --owner" not in text
        clock_of(board).move(570)
        assert "silent" not in {kind for _, kind, _ in found(board)}, "it is too long ago"


@pytest.mark.parametrize(("pids", "is_told"), [((7, 7), False), ((7, 8), True), (("?", "?"), True), (([7], [7]), True)])
def test_the_participants_of_one_process_are_one_witness(pids: tuple[object, object], is_told: bool) -> None:
    with memory_board() as board:
        silent(board, "w", "a", pid=pids[0])
        silent(board, "clock", kind="scheduler", pid=pids[1], then=45)
        board.post("a")
        board.claim_next("w", expiry=600)
        kinds = {kind for _, kind, _ in found(board)}
        assert kinds == ({"silent"} if is_told else {"conductor_gone"}), (
            "one process was killed, and the store is there"
        )


def test_those_that_fell_silent_one_after_the_other_are_not_taken_together() -> None:
    with memory_board() as board:
        for number, then in enumerate((20, 20, 55)):
            silent(board, f"w{number}", "a", then=then)
        board.post("a")
        board.claim_next("w2", expiry=600)
        assert [(kind, about) for _, kind, about in found(board)] == [("conductor_gone", "w2")]


@pytest.mark.parametrize("lane", [None, "tenant:7"])
def test_a_conductor_that_was_heard_of_within_the_minute_is_waited_for(lane: str | None) -> None:
    with memory_board() as board:
        if lane is not None:
            board.limits.set(lane=lane, running=1)
        board.post_many([Posting("a", lane=lane)] * 3)
        clock_of(board).move(300)
        assert {verdict for verdict, *_ in found(board)} == {"BAD"}
        silent(board, "other", "b", then=30)
        assert {verdict for verdict, *_ in found(board)} == {"BAD"}
        silent(board, "w", "a", "c", then=50)
        told = status(board)["findings"]
        assert {each["verdict"] for each in told} == {"ATTENTION"}
        assert any("Wait for one that does, last heard of 50s ago" in each["text"] for each in told)
        clock_of(board).move(20)
        assert "BAD" in {verdict for verdict, *_ in found(board)}


def test_an_outage_of_what_all_share_may_be_longer_than_a_restart() -> None:
    with memory_board() as board:
        for name in ("w0", "w1", "w2"):
            silent(board, name, "a")
        board.post("a")
        for then, verdict in ((100, "ATTENTION"), (100, "BAD")):
            clock_of(board).move(then)
            assert {each["kind"]: each["verdict"] for each in status(board)["findings"]}["no_conductor"] == verdict


def test_fewer_conductors_are_told_for_some_minutes_while_there_is_work() -> None:
    with memory_board() as board:
        for name in ("w0", "w1"):
            board.register_entity(Entity("conductor", name, {"names": ["a"], "uptime": 60, "running": 4}, ttl=1e6))
        silent(board, "dead", "a", then=70)
        assert found(board) == [], "no work"
        kinds = []
        for then in (0, 300, 300):
            clock_of(board).move(then)
            job = board.post("a")
            told = [each for each in status(board)["findings"] if each["about"] == "dead"]
            kinds.append([each["kind"] for each in told])
            assert all(each["text"].startswith("1 of 3 conductors is gone, dead was last heard of ") for each in told)
            board.cancel(job)
        assert kinds == [["fewer_conductors"], ["fewer_conductors"], []]


def test_who_is_gone_runs_nothing() -> None:
    with memory_board() as board:
        told = {"names": ["a"], "running": 4, "concurrency": 4, "stuck": 1, "longest": []}
        for name in ("w0", "w1", "w2"):
            board.register_entity(Entity("conductor", name, told, ttl=40 if name == "w1" else 1e6))
        clock_of(board).move(50)
        rows = {
            row["name"]: (row["running"], row["stuck"], row["concurrency"])
            for row in map(entity_view, board.entities())
        }
        assert rows == {"w0": (4, 1, 4), "w1": (None, None, 4), "w2": (4, 1, 4)}


def test_conductors_of_every_name_are_missed_and_replaced_like_others(board: JobBoard) -> None:
    every = {"names": "*", "uptime": 60, "concurrency": 1}
    board.register_entity(Entity("conductor", "gone", every, ttl=0.001))
    eventually(lambda: not any(entity.alive for entity in board.entities()))
    board.post_many([Posting("a"), Posting("b"), Posting("c")])
    text = next(each["text"] for each in status(board, NONE)["findings"] if each["kind"] == "conductor_gone")
    assert "Jobs that it ran wait ('a', 'b', 'c'), and no conductor has begun in its place" in text
    board.register_entity(Entity("conductor", "some names", {"names": ["a", "b", "c"], "uptime": 0}, ttl=600))
    assert ("ATTENTION", "conductor_gone", "gone") in found(board, NONE), "it has no handler for other names"
    board.register_entity(Entity("conductor", "new", {**every, "uptime": 0}, ttl=600))
    assert not any(kind in ("conductor_gone", "no_conductor") for _, kind, _ in found(board, NONE))
