"""A worker, which makes the calls of its plan."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from jobboard import Job, JobBoard, JobState, Posting

from .lanes import LANES, MOST_MOVING, MOVING, look_at
from .plan import Step, steps_of
from .records import Diary, Op, told

#: How many jobs of others, posts and claims a process remembers.
_MEMORY = 40


@dataclass(slots=True)
class Held:
    """A claim that this process was granted; ``ended``: the calls that have ended it, or may have."""

    job: Job
    until: float
    ended: set[str] = field(default_factory=set)


class Worker:
    """Makes one call after the other, and writes each down.

    :param who: the owner's name; several processes may share one.
    """

    def __init__(self, board: JobBoard, diary: Diary, who: str) -> None:
        self._board = board
        self._diary = diary
        self._who = who
        self._held: deque[Held] = deque(maxlen=_MEMORY)
        self._posted: deque[tuple[str, dict[str, Any], float]] = deque(maxlen=_MEMORY)
        self._seen: deque[str] = deque(maxlen=_MEMORY)
        self._in_trash: deque[str] = deque(maxlen=_MEMORY)

    def take(self, step: Step) -> None:
        """Make one call, if there is something to make it on."""
        getattr(self, f"_{step.op}")(step)

    def _call(self, op: str, args: dict[str, Any], request: Callable[[], Any]) -> Op:
        return self._diary.call(op, args, request)

    # -- producers -------------------------------------------------------------------------------------------------

    def _post(self, step: Step) -> None:
        self._send_post({"uuid": step.uuid, "name": step.name, "priority": step.priority, "delay": step.delay,
                         "max_attempts": step.max_attempts, "n": step.number, "lane": step.lane})  # fmt: skip

    def _post_key(self, step: Step) -> None:
        self._send_post({"uuid": step.uuid, "name": step.name, "priority": step.priority, "delay": step.delay,
                         "max_attempts": step.max_attempts, "n": step.number, "key": step.key,
                         "if_exists": step.if_exists, "lane": step.lane})  # fmt: skip

    def _post_again(self, step: Step) -> None:
        """Repeat a recent post: a store remembers a job that has ended for a minute only."""
        recent = [args for _, args, at in self._posted if time.monotonic() - at < 15]
        if recent:
            self._send_post(_one_of(recent, step.pick))

    def _send_post(self, args: dict[str, Any]) -> None:
        options = {name: args[name] for name in ("delay", "max_attempts", "lane", "key", "if_exists") if name in args}

        def request() -> dict[str, Any]:
            job = self._board.post(
                args["name"], {"n": args["n"]}, priority=args["priority"], uuid=args["uuid"], **options
            )
            return shown(job)

        if all(uuid != args["uuid"] for uuid, _, _ in self._posted):
            self._posted.append((args["uuid"], args, time.monotonic()))
        self._call("post", args, request)
        self._seen.append(args["uuid"])

    def _post_many(self, step: Step) -> None:
        postings = [Posting(step.name, details={"n": step.number}, priority=step.priority, uuid=uuid,
                            lane=step.lane)
                    for uuid in step.more_uuids]  # fmt: skip
        args = {"uuids": step.more_uuids, "name": step.name, "priority": step.priority}
        self._call("post_many", args, lambda: [shown(job) for job in self._board.post_many(postings)])

    # -- consumers -------------------------------------------------------------------------------------------------

    def _claim_next(self, step: Step) -> None:
        args = {"who": self._who, "names": step.names, "limit": step.limit, "expiry": step.expiry}
        claimed: list[Job] = []

        def request() -> list[dict[str, Any]]:
            claimed.extend(self._board.claim_next(self._who, step.names, step.limit, step.expiry))
            return [shown(job) for job in claimed]

        call = self._call("claim_next", args, request)
        self._held.extend(Held(job, call.start + step.expiry) for job in claimed)

    def _claim(self, step: Step) -> None:
        if not self._seen:
            return
        uuid = _one_of(self._seen, step.pick)
        args = {"who": self._who, "uuid": uuid, "expiry": step.expiry}
        claimed: list[Job] = []

        def request() -> dict[str, Any]:
            # A handle of its own, whose token no later claim by this process replaces.
            job = self._board.get(uuid)
            self._board.claim(job, self._who, step.expiry)
            claimed.append(job)
            return shown(job)

        call = self._call("claim", args, request)
        self._held.extend(Held(job, call.start + step.expiry) for job in claimed)

    def _extend(self, step: Step) -> None:
        held = self._claim_for(step)
        if held is not None:
            args = self._fence(held) | {"expiry": step.expiry}
            call = self._call("extend", args, lambda: self._board.extend(held.job, self._who, step.expiry))
            if call.is_ok:
                held.until = call.start + step.expiry
            self._explain(held, call)

    def _checkpoint(self, step: Step) -> None:
        held = self._claim_for(step)
        if held is not None:
            request = partial(self._board.checkpoint, held.job, self._who, step.number)
            self._explain(held, self._call("checkpoint", self._fence(held), request))

    def _consume(self, step: Step) -> None:
        self._end(step, "consume", lambda job: self._board.consume(job, self._who, step.number))

    def _abandon(self, step: Step) -> None:
        delay = step.delay or 0.0
        self._end(step, "abandon", lambda job: self._board.abandon(job, self._who, delay=delay), delay=delay)

    def _trash(self, step: Step) -> None:
        self._end(step, "trash", lambda job: self._board.trash(job, self._who, reason="broken"))

    def _end(self, step: Step, op: str, request: Callable[[Job], None], **more: Any) -> None:
        """An end is never repeated by hand under its own token: a success of the second would be the first one's."""
        held = self._claim_for(step)
        if held is None or op in held.ended:
            return
        call = self._call(op, self._fence(held) | more, lambda: request(held.job))
        self._explain(held, call)
        if call.may_have_happened:
            held.ended.add(op)

    def _consume_many(self, step: Step) -> None:
        batch = [held for held in self._held if not held.ended and held.until > time.monotonic()][: step.limit]
        if not batch:
            return
        args = {"who": self._who, "fences": [[held.job.uuid, held.job.token] for held in batch]}

        def request() -> list[tuple[str, str] | None]:
            errors = self._board.consume_many([held.job for held in batch], self._who)
            return [None if error is None else told(error) for error in errors]

        call = self._call("consume_many", args, request)
        if call.may_have_happened:
            for held in batch:
                held.ended.add("consume")

    def _explain(self, held: Held, call: Op) -> None:
        """Write down what became of a claim that was to hold on: for those who look into a violation."""
        if call.outcome == "refused" and held.until > call.end and not held.ended:
            self._call("history", {"of": held.job.uuid}, lambda: [str(row) for row in held.job.history])

    def _fence(self, held: Held) -> dict[str, Any]:
        return {"who": self._who, "uuid": held.job.uuid, "token": held.job.token}

    def _claim_for(self, step: Step) -> Held | None:
        now = time.monotonic()
        fresh = [held for held in self._held if not held.ended and held.until > now]
        over = [held for held in self._held if held.ended or held.until <= now]
        found = over if step.stale else fresh
        return _one_of(found, step.pick) if found else None

    # -- operators -------------------------------------------------------------------------------------------------

    def _cancel(self, step: Step) -> None:
        self._operate("cancel", self._seen, step, self._board.cancel)

    def _release(self, step: Step) -> None:
        self._operate("release", self._seen, step, lambda uuid: self._board.release(uuid, reason="its host is gone"))

    def _trash_by_force(self, step: Step) -> None:
        self._operate("trash_by_force", self._seen, step, lambda uuid: self._board.trash(uuid, by="operator"))

    def _restore(self, step: Step) -> None:
        self._operate("restore", self._in_trash, step, lambda uuid: shown(self._board.restore(uuid)))

    def _purge(self, step: Step) -> None:
        self._operate("purge", self._in_trash, step, self._board.purge)

    def _operate(self, op: str, known: Sequence[str], step: Step, request: Callable[[str], Any]) -> None:
        if known:
            uuid = _one_of(known, step.pick)
            self._call(op, {"uuid": uuid}, lambda: request(uuid))

    # -- lookers-on ------------------------------------------------------------------------------------------------

    def _look(self, step: Step) -> None:
        states = {JobState.CLAIMED} if step.stale else {JobState.DELAYED, JobState.UNCLAIMED}
        self._seen.extend(self._listed(states))

    def _look_at_trash(self, step: Step) -> None:
        self._in_trash.extend(self._listed({JobState.TRASHED}))

    def _listed(self, states: set[JobState]) -> list[str]:
        call = self._call("look", {"states": sorted(states)}, lambda: [
            job.uuid for job, _ in zip(self._board.iterjobs(states=states), range(20), strict=False)
        ])  # fmt: skip
        return call.answer or []

    def _look_at_lane(self, step: Step) -> None:
        lane = _one_of(LANES, step.pick)
        self._call("look_at_lane", {}, lambda: look_at(self._board, lane))

    def _limit_lane(self, step: Step) -> None:
        """Move the limit of the lane whose limit changes, or pause or resume it."""
        self._call("limit_lane", {"number": step.number}, lambda: self._limit(step.number))

    def _limit(self, number: int) -> None:
        if number % 3 == 0:
            self._board.pause(lane=MOVING)
        elif number % 3 == 1:
            self._board.resume(lane=MOVING)
        else:
            self._board.limits.set(lane=MOVING, running=1 + number % MOST_MOVING)

    def _audit(self, step: Step) -> None:
        self._call("audit", {}, lambda: [f"{finding.uuid}: {finding.problem}" for finding in self._board.audit()])


def shown(job: Job) -> dict[str, Any]:
    return {"uuid": job.uuid, "token": job.token, "name": job.name, "priority": int(job.priority),
            "place": job._row.place, "lane": job.lane,
            "sequence": job.sequence, "attempts": job.record.attempts, "max_attempts": job.max_attempts}  # fmt: skip


def _one_of(items: Sequence[Any], pick: float) -> Any:
    return items[int(pick * len(items))]


def work(board: JobBoard, diary: Diary, process: str, seed: int, rate: float, stop: Stop | threading.Event) -> None:
    """Take the steps of a plan until told to stop.

    :param process: whose plan; each thread of a process has a name of its own.
    """
    # Two processes share each owner's name: a claim is the token, and not the name.
    worker = Worker(board, diary, f"owner {ord(process[1]) % 2}")
    for step in steps_of(seed, process, rate):
        if stop.wait(step.pause):
            return
        worker.take(step)


class Stop:
    """Told by a signal to stop. ``Event.set()`` may wait for a lock that the interrupted thread holds in ``wait()``."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[None] = SimpleQueue()
        self._is_set = False

    def set(self) -> None:
        self._is_set = True
        self._queue.put(None)

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float) -> bool:
        with contextlib.suppress(Empty):
            self._queue.get(timeout=timeout)
        if self._is_set:
            # For the next thread: under libfaketime, a timeout may last for as long as the clock was stepped.
            self._queue.put(None)
        return self._is_set
