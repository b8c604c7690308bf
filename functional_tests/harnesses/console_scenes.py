"""Boards as operators meet them: a shop at work, a new one, and a night on which four things fail at once."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from jobboard import Cron, Entity, Every, Job, JobBoard, JobPriority, JobState, Posting, Rate, Schedule
from jobboard.logbook import LogBook
from jobboard.operate.sampling.buckets import Bucket, Figures, merged
from jobboard.operate.sampling.history import Period, levels
from jobboard.operate.sampling.lease import Lease
from jobboard.testing import clock_of, fire_due, memory_board

_WORKERS = ("worker-1.shop.example", "worker-2.shop.example", "worker-3.shop.example")
_TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/handlers.py", line 88, in invoice
    address = customers.address_of(job.details["customer"])
  File "/srv/shop/customers.py", line 41, in address_of
    raise LookupError(f"no customer {customer}")
LookupError: no customer 1704
"""
#: For how many minutes the charts of a board go back.
_MINUTES = 180


@contextlib.contextmanager
def shop() -> Iterator[tuple[JobBoard, Job]]:
    """A board with jobs in every state, and the history of three hours; the job has failed twice and then gone well."""
    with memory_board("shop", now=datetime.now(UTC) - timedelta(hours=3)) as board:
        _register(board)
        board.schedules.add(Schedule("nightly report", Cron("30 3 * * mon-fri", "Europe/Berlin"), "report"))
        board.schedules.add(Schedule("clean up", Every(minutes=30), "clean up"))
        board.schedules.add(Schedule("stock of all shops", Cron("*/20 * * * *", "America/New_York"), "index"))
        board.limits.set(name="resize", running=8, by="ada")
        board.limits.set(lane="tenant:*", running=2, by="ada", reason="large tenants took all slots")
        board.limits.set(lane="mail.example", rate=Rate(30, 60), by="grace")
        retried = _retry(board)
        for reason in (
            "LookupError: no customer 1704",
            "ConnectionError: mail.example refused",
            "LookupError: no customer 88",
        ):
            clock_of(board).move(1800)
            fire_due(board)
            _work_off(board, ("clean up", "index"))
            _fail(board, "mail" if "mail" in reason else "invoice", reason)
        clock_of(board).move_to(datetime.now(UTC) - timedelta(minutes=4))
        fire_due(board)
        _work_off(board, ("clean up", "index"))
        _wait(board)
        clock_of(board).move_to(datetime.now(UTC))
        _register(board)
        _save_history(board, [_minute(ago) for ago in range(_MINUTES, 0, -1)])
        yield board, retried


@contextlib.contextmanager
def night() -> Iterator[tuple[JobBoard, Job]]:
    """A handler hangs, all jobs of a kind fail, nothing fires, a name is paused; the job is one that failed."""
    with memory_board("orders", now=datetime.now(UTC) - timedelta(hours=3)) as board:
        board.schedules.add(Schedule("hourly invoices", Every(hours=1), "invoice"))
        board.schedules.add(Schedule("nightly report", Cron("0 3 * * *", "Europe/Berlin"), "report"))
        board.post_many(Posting("invoice", {"customer": 1704 + n}, key=f"order/{4700 + n}") for n in range(556))
        for job in board.claim_next(_WORKERS[0], {"invoice"}, 556):
            board.trash(job, _WORKERS[0], reason="LookupError: no customer 1704", error=_TRACEBACK)
        board.post_many(Posting("resize", {"image": f"img-{n}.png"}) for n in range(40))
        hung = board.claim_next(_WORKERS[0], {"resize"}, 3, math.inf)
        board.pause("mail", by="ada", reason="the mail server is down")
        board.post_many(Posting("mail", {"to": f"user{n}@example.org"}) for n in range(120))
        clock_of(board).move_to(datetime.now(UTC))
        runs = [{"uuid": job.uuid, "name": job.name, "seconds": 9400.0 - 60 * n} for n, job in enumerate(hung)]
        _register_one(board, _WORKERS[0], names=["invoice", "resize"], running=3, stuck=2, healthy=False, longest=runs,
                      stuck_names=["resize"], fault="2 of 8 slots are stuck")  # fmt: skip
        _register_one(board, _WORKERS[1], names=["mail"], running=0, longest=[], number=3)
        _save_history(board, [_minute_of_night(ago) for ago in range(_MINUTES, 0, -1)])
        (failed,) = [job for job in board.trashed() if job.key == "order/4711"]
        yield board, failed


def happen(board: JobBoard) -> None:
    """Let something happen now, for the page of events."""
    board.post("mail", {"to": "ada@example.org"}, priority=JobPriority.HIGH)
    board.post("resize", {"image": "img-204.png"}, delay=30)
    for job in board.claim_next(_WORKERS[0], {"mail"}, 2):
        board.consume(job, _WORKERS[0])
    for job in board.claim_next(_WORKERS[1], {"resize"}, 2, 3600):
        board.abandon(job, _WORKERS[1], delay=60, reason="OSError: no space left on /srv/images", error="OSError")


def _retry(board: JobBoard) -> Job:
    """Run a job three times: it fails, fails, and goes well."""
    job = board.post("invoice", {"order": 4711, "customer": 1704, "amount": "129.00 EUR"}, key="order/4711")
    for who, ran, delay in (_WORKERS[0], 40, 120), (_WORKERS[1], 65, 300):
        clock_of(board).move(30)
        board.claim(job, who, 600)
        clock_of(board).move(ran)
        board.abandon(job, who, delay=delay, reason="LookupError: no customer 1704", error=_TRACEBACK)
        clock_of(board).move(delay)
    clock_of(board).move(20)
    board.claim(job, _WORKERS[0], 600)
    clock_of(board).move(48)
    board.consume(job, _WORKERS[0], {"invoice": "2026-11-4711", "pages": 2})
    return job


def _work_off(board: JobBoard, names: tuple[str, ...]) -> None:
    for job in board.claim_next(_WORKERS[1], set(names), 100, 600):
        board.consume(job, _WORKERS[1])


def _fail(board: JobBoard, name: str, reason: str) -> None:
    for job in [board.post(name, {"customer": 1704 + n}) for n in range(len(reason) // 7)]:
        board.trash(job, by=_WORKERS[2], reason=reason, error=_TRACEBACK)


def _wait(board: JobBoard) -> None:
    """Put jobs in every state on the board, those of a graph too."""
    board.pause("report", by="ada", reason="the printer is away")
    first = Posting("fetch", {"url": "https://shop.example/feed.xml"}, key="feed/2026-11-29")
    parts = [Posting("resize", {"image": f"img-{n}.png", "width": 640}, after=[first]) for n in range(4)]
    board.post_many([first, *parts, Posting("publish", {"shop": 7}, after=parts)])
    (got,) = board.claim_next(_WORKERS[0], {"fetch"}, 1, 600)
    board.consume(got, _WORKERS[0], {"images": 4})
    for seconds, number in (90, 60), (50, 70), (20, 40):
        clock_of(board).move(seconds)
        board.post_many(Posting("mail", {"to": f"user{n}@example.org", "template": "shipped"}) for n in range(number))
        board.post_many(Posting("resize", {"image": f"img-{n}.png", "width": 320}) for n in range(number // 3))
        board.post_many(Posting("index", {"product": 9000 + n}, lane=f"tenant:{n % 3}") for n in range(number // 5))
        for who, name in zip(_WORKERS, ("mail", "resize", "index"), strict=True):
            board.claim_next(who, {name}, 2, 3600)
    later = (
        Posting("remind", {"order": 4700 + n}, key=f"order/{4700 + n}/unpaid", delay=3600 * (n + 1)) for n in range(30)
    )
    board.post_many(later)


def _register(board: JobBoard) -> None:
    """Register three conductors and a scheduler, as if they had just told how they are."""
    names = ["clean up", "fetch", "index", "invoice", "mail", "publish", "remind", "report", "resize"]
    claimed, now = list(board.iterjobs(states={JobState.CLAIMED})), clock_of(board)()
    for number, who in enumerate(_WORKERS):
        held = [(now - job.record.last_modified.timestamp(), job) for job in claimed if job.record.owner == who]
        runs = [{"uuid": job.uuid, "name": job.name, "seconds": round(seconds, 1)} for seconds, job in held]
        _register_one(board, who, names=names, running=len(runs), longest=runs[:3], number=number)
    scheduler = {
        "host": "shop-1",
        "pid": 97,
        "version": "0.1.0",
        "python": "3.13.5",
        "uptime": 86_000,
        "memory": 50 * 2**20,
    }
    board.register_entity(Entity("scheduler", "scheduler-1.shop.example", scheduler, ttl=86_400))


def _register_one(board: JobBoard, who: str, *, number: int = 0, **told: object) -> None:
    host = who.partition(".")[0]
    common = {"host": host, "pid": 2100 + number, "executor": "thread", "concurrency": 8, "stuck": 0}
    process = {
        "version": "0.1.0",
        "python": "3.13.5",
        "uptime": 900 + 700 * number,
        "memory": (88 + number) * 2**20,
    }
    board.register_entity(Entity("conductor", who, common | process | told, ttl=86_400))


def _minute(ago: int) -> Bucket:
    """Return a minute of a day that gets busier, in which mail was paused for a quarter of an hour."""
    at = int(time.time() // 60 - ago) * 60
    bucket = Bucket(at, heard=60.0)
    is_paused = 45 >= ago > 30
    # What has waited since the pause is worked off until 15 minutes ago.
    held = 40 * (45 - ago) if is_paused else max(0, 40 * (ago - 15)) if ago <= 30 else 0
    for name, waiting, posted, seconds in ("mail", 160, 90, 0.4), ("resize", 50, 40, 6.0), ("index", 22, 25, 2.0):
        wave = 1 + 0.35 * math.sin(ago / 9 + posted) + 0.1 * math.sin(ago * 1.7)
        figures = Figures(
            waiting=int(waiting * wave), running=2, posted=int(posted * wave), finished=int(posted * wave)
        )
        figures.failed = int(posted * wave) // (9 if name == "resize" and ago < 20 else 40)
        figures.delayed, figures.trashed = (30, 12) if name == "mail" else (0, 0)
        figures.blocked = int(20 * wave) if name == "index" else 0
        if name == "mail":
            figures.waiting += held
            figures.paused = int(is_paused)
            figures.finished = 0 if is_paused else figures.finished + (40 if ago <= 30 and held else 0)
        figures.oldest = int(20 * wave) + (60 * (45 - ago) if is_paused and name == "mail" else 0)
        for n in range(12):
            figures.wait.add(figures.oldest * (n + 1) / 24)
            figures.run.add(seconds * (n + 6) / 12)
        bucket.names[name] = figures
        bucket.total.merge(figures)
    _sum_gauges(bucket)
    return bucket


def _minute_of_night(ago: int) -> Bucket:
    """Return a minute in which mail piles up, images wait behind two that hang, and each invoice fails."""
    bucket = Bucket(int(time.time() // 60 - ago) * 60, heard=60.0)
    over = _MINUTES - ago
    mail = Figures(waiting=over * 2 // 3, posted=over % 3 % 2, oldest=60 * over, paused=1)
    resize = Figures(waiting=over // 5, running=3, posted=int(over % 5 == 0), oldest=60 * over)
    invoice = Figures(trashed=min(556, 14 * over), posted=14 * (over < 40), failed=14 * (over < 40))
    bucket.names = {"mail": mail, "resize": resize, "invoice": invoice}
    for figures in bucket.names.values():
        bucket.total.merge(figures)
    _sum_gauges(bucket)
    return bucket


def _sum_gauges(bucket: Bucket) -> None:
    """Of gauges a merge takes the largest; of all names together there are as many as of each."""
    for gauge in ("waiting", "running", "delayed", "trashed", "blocked"):
        setattr(bucket.total, gauge, sum(getattr(figures, gauge) for figures in bucket.names.values()))
    # A pause of a name is none of the board.
    bucket.total.paused = 0


def _save_history(board: JobBoard, minutes: list[Bucket]) -> None:
    """Save them as a sampler does that has ended since."""
    periods: dict[Period, list[Bucket]] = {}
    for level, buckets in zip(levels(14), (minutes, _tens(minutes)), strict=True):
        for bucket in buckets:
            period = Period(level.bucket, bucket.at // level.book * level.book)
            periods.setdefault(period, []).append(bucket)
    for period, buckets in periods.items():
        book = LogBook("history", period.uuid)
        book.meta, book.entries = {"format": 1}, [bucket.to_plain() for bucket in buckets]
        board.save_book(book)
    lease = Lease(board, "an earlier console", 40.0)
    lease.hold({"books": [[period.bucket, period.start] for period in periods]})
    lease.release()


def _tens(minutes: list[Bucket]) -> list[Bucket]:
    tens = sorted({bucket.at // 600 * 600 for bucket in minutes})
    return [merged(ten, [each for each in minutes if each.at // 600 * 600 == ten]) for ten in tens]
