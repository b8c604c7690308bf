"""A board whose texts, each that users may write, are markup, escapes, 200 KB long, or written from the right."""

from __future__ import annotations

from datetime import timedelta

from jobboard import Cron, Entity, Every, Job, JobBoard, LogBook, Posting, Rate, Schedule
from jobboard.backends.edge_rows import StepRow
from jobboard.backends.rows import Fence
from jobboard.board import client_of

MARKUP = '<img src=x onerror="window.pwned=1"></td></table><script>window.pwned=2</script>\'"&amp;'
TERMINAL = "\x1b[31mred\x1b]0;title\x07\x9b2J\x00\b"
FROM_THE_RIGHT = "\u202e\u05de\u05d1\u05d7\u05df\u2066 \u0639\u0631\u0628\u064a"
#: What stands in names, keys, owners and ids, which hold no control characters: 255 bytes at most.
NAME = f"{MARKUP}{FROM_THE_RIGHT}"
#: What stands in texts without such a bound.
TEXT = f"{MARKUP}\n{TERMINAL}\n{FROM_THE_RIGHT}\n{'W' * 200_000}"


def fill(board: JobBoard) -> list[Job]:
    """Put jobs in every state, participants, schedules and pauses on a board; returns the jobs."""
    board.schedules.add(Schedule(f"s{NAME}"[:150], Every(hours=1), NAME, details={NAME: TEXT}))
    board.schedules.add(Schedule("with a zone", Cron("30 3 * * *", "Europe/Berlin"), NAME))
    board.schedules.pause("with a zone", note=TEXT)
    board.schedules.fire_now(f"s{NAME}"[:150])
    book = LogBook(name=NAME)
    details = {"text": TEXT, NAME: {"nested": [NAME, TEXT[:1000]]}}
    waiting = board.post(NAME, book=book, details=details, key=NAME)
    delayed = board.post(NAME, delay=timedelta(hours=1).total_seconds())
    failed = board.post("failed")
    board.claim(failed, NAME)
    board.abandon(failed, NAME, delay=3600, reason=TEXT, error=TEXT)
    trashed = [board.post(name) for name in (NAME, "W" * 255, "trashed")]
    for job in trashed:
        board.trash(job, by=NAME, reason=TEXT, error=TEXT)
    done = board.post("done", details=details)
    board.claim(done, NAME)
    board.consume(done, NAME, TEXT)
    claimed = board.post("held", details=details)
    board.claim(claimed, NAME, expiry=86_400)
    board.checkpoint(claimed, NAME, {NAME: TEXT})
    board.extend_many([claimed], NAME, 86_400, progress=[{"done": 1, "total": 3, "text": TEXT[:1000]}])
    board.cancel(claimed)
    told = {"host": NAME, "label": NAME, "executor": NAME, "names": [NAME, "W" * 255], "stuck_names": [NAME]}
    told |= {"fault": TEXT[:5000], "healthy": False, "stuck": 3, "running": 2, "concurrency": 4, "refused": [NAME]}
    told |= {"longest": [{"uuid": claimed.uuid, "name": NAME, "seconds": 86_400.0}], "pid": NAME, "quiet": True}
    board.register_entity(Entity("conductor", NAME, told, ttl=86_400))
    board.register_entity(Entity("scheduler", NAME, {"host": NAME}, ttl=86_400))
    board.register_entity(Entity(NAME, "W" * 255, {NAME: TEXT[:1000]}, ttl=86_400))
    board.pause(NAME)
    board.limits.set(lane=NAME, running=1, by=NAME, reason=TEXT[:1000])
    board.limits.set(name="held", running=3, by=NAME)
    board.limits.set(lane="tenant:*", rate=Rate(30, 60))
    board.post_many([Posting(NAME, lane=NAME)] * 3 + [Posting("laned", lane=f"tenant:{n}") for n in range(5)] * 2)
    board.pause(lane="tenant:1", by=NAME, reason=TEXT[:1000])
    board.post_many(Posting(f"name {number}") for number in range(60))
    return [waiting, delayed, failed, *trashed, done, claimed, _post_family(board, claimed)]


def _post_family(board: JobBoard, claimed: Job) -> Job:
    """Post jobs that wait for each other and for a claimed one, which gets a step and a signal; return the last."""
    first = Posting("W" * 255, after=[claimed])
    parts = [Posting(NAME, after=[first]), Posting("part", after=[first])]
    *_, last = board.post_many([first, *parts, Posting(NAME, after=[*parts, first])])
    client = client_of(board)
    client.call(client.backend.steps.save, Fence(claimed.uuid, NAME, claimed.token or 0), StepRow(0, NAME, b"\xc0"))
    board.signal(claimed, NAME, TEXT[:1000], by=NAME)
    return last
