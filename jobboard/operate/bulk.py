"""Does one thing to many jobs, a batch a request, and says what became of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from jobboard.backends.reasons import released, to_priority, trashed_by_operator
from jobboard.backends.rows import CancelOutcome, Trashing, TrashOutcome, Verdict, is_refusal, verdict_of
from jobboard.errors import BoardUnavailable, NotFound
from jobboard.states import LIVE, JobPriority, JobState
from jobboard.validation import check_operator

if TYPE_CHECKING:
    from jobboard.backends.base import Backend
    from jobboard.board import JobBoard
    from jobboard.client.sharing import Answer
    from jobboard.job import Job


#: How many jobs one request is about.
_BATCH = 100
#: How many names are listed.
_MAX_NAMES = 5
#: For how many jobs that can't be restored the one that has their key is looked up.
_MAX_NAMED = 20

Step = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Target:
    """A job that was selected, and the token of the claim that it had then."""

    uuid: str
    name: str
    token: int


@dataclass(slots=True)
class Outcome:
    """How many jobs were changed, how many of them only asked to end, and a line for each that was not changed.

    ``changed`` are the uuids of the former.
    """

    done: int = 0
    asked: int = 0
    refused: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def targets_of(jobs: Iterable[Job]) -> list[Target]:
    """Return what the functions below need of each job; far less than a handle holds."""
    return [Target(job.uuid, job.name, job.record.token) for job in jobs]


def of_what(targets: Sequence[Target]) -> str:
    """Return how many of what: ``1 job named 'mail'``, ``3 jobs (2 resize, 1 mail)``."""
    number = f"{len(targets)} job{'s' * (len(targets) != 1)}"
    count = Counter(target.name for target in targets).most_common()
    if len(count) < 2:
        return f"{number} named {count[0][0]!r}" if count else number
    names = [f"{number} {name}" for name, number in count[:_MAX_NAMES]]
    names += [f"{len(count) - _MAX_NAMES} other names"] if len(count) > _MAX_NAMES else []
    return f"{number} ({', '.join(names)})"


def summary_of(targets: Sequence[Target], done: str, outcome: Outcome) -> str:
    """Return what has become of them, but for why some were refused: ``2 of 3 jobs (2 resize, 1 mail) restored``.

    :param done: what those that were changed now are, such as ``restored``.
    """
    what = of_what(targets)
    text = f"{outcome.done} of {what} {done}" if outcome.refused else f"{what} {done}"
    asked = f"; {outcome.asked} of them are claimed, and their owners have been asked to end" if outcome.asked else ""
    return text + asked


def cancel_all(
    board: JobBoard, targets: Sequence[Target], step: Step, *, by: str | None = None, reason: str | None = None
) -> Outcome:
    """Take jobs off the board; the owners of claimed ones are asked to end. Each job is one atomic change.

    :param step: called with the number of jobs that a request was about.
    :param by: the operator, for the history. :param reason: why, for the history.
    :raises BoardUnavailable: the store can't be reached; says how many jobs are done.
    """
    said = check_operator(by, reason)

    def cancel(backend: Backend, part: Sequence[Target]) -> list[CancelOutcome]:
        return backend.jobs.cancel([target.uuid for target in part], *said)

    def judge(target: Target, answer: CancelOutcome, repeated: bool) -> str | None:
        if is_refusal(answer, repeated):
            return f"job {target.uuid} is not on the board any more"
        outcome.asked += answer is CancelOutcome.ASKED
        return None

    outcome = Outcome()
    return _run(board, targets, step, outcome, cancel, judge)


def trash_all(
    board: JobBoard, targets: Sequence[Target], step: Step, *, by: str | None = None, reason: str | None = None
) -> Outcome:
    """Put jobs into the trash, whoever holds them; otherwise as :func:`cancel_all`."""
    who, text = check_operator(by, trashed_by_operator(reason))

    def trash(backend: Backend, part: Sequence[Target]) -> list[Verdict]:
        answers = backend.jobs.trash([Trashing(target.uuid, None, reason=text, by=who) for target in part])
        return [verdict_of(answer) for answer in answers]

    def judge(target: Target, answer: Verdict, repeated: bool) -> str | None:
        return f"job {target.uuid} is not on the board any more" if answer is Verdict.LOST else None

    return _run(board, targets, step, Outcome(), trash, judge)


def release_all(
    board: JobBoard, targets: Sequence[Target], step: Step, *, by: str | None = None, reason: str | None = None
) -> Outcome:
    """End the claims that the jobs had when they were selected, a request each; otherwise as :func:`cancel_all`."""
    text = released(*check_operator(by, reason))

    def release(backend: Backend, part: Sequence[Target]) -> list[Verdict]:
        return [backend.jobs.release(target.uuid, target.token, text) for target in part]

    def judge(target: Target, answer: Verdict, repeated: bool) -> str | None:
        lost = is_refusal(answer, repeated)
        return f"the claim of job {target.uuid} ended before it could be released" if lost else None

    return _run(board, targets, step, Outcome(), release, judge, size=1)


def run_now_all(
    board: JobBoard, targets: Sequence[Target], step: Step, *, by: str | None = None, reason: str | None = None
) -> Outcome:
    """Let delayed jobs be claimable at once; otherwise as :func:`cancel_all`."""
    said = check_operator(by, reason)

    def run_now(backend: Backend, part: Sequence[Target]) -> list[Verdict]:
        return backend.jobs.run_now([target.uuid for target in part], *said)

    def judge(target: Target, answer: Verdict, repeated: bool) -> str | None:
        return f"job {target.uuid} is not delayed" if is_refusal(answer, repeated) else None

    return _run(board, targets, step, Outcome(), run_now, judge)


def reprioritize_all(
    board: JobBoard,
    targets: Sequence[Target],
    step: Step,
    *,
    priority: JobPriority | str,
    by: str | None = None,
    reason: str | None = None,
) -> Outcome:
    """Give jobs that wait another priority, also those that have it already; otherwise as :func:`cancel_all`."""
    wish = JobPriority.convert(priority)
    who, why = check_operator(by, reason)
    text = to_priority(wish, why)

    def reprioritize(backend: Backend, part: Sequence[Target]) -> list[Verdict]:
        return backend.jobs.reprioritize([target.uuid for target in part], int(wish), who, text)

    def judge(target: Target, answer: Verdict, repeated: bool) -> str | None:
        return f"job {target.uuid} is claimed, or not on the board any more" if answer is Verdict.LOST else None

    return _run(board, targets, step, Outcome(), reprioritize, judge)


def restore_all(
    board: JobBoard, targets: Sequence[Target], step: Step, *, by: str | None = None, reason: str | None = None
) -> Outcome:
    """Bring jobs back from the trash, with no attempts used; otherwise as :func:`cancel_all`."""
    said = check_operator(by, reason)

    def restore(backend: Backend, part: Sequence[Target]) -> list[TrashOutcome]:
        return backend.jobs.restore([target.uuid for target in part], *said)

    names_left = iter(range(_MAX_NAMED))

    def judge(target: Target, answer: TrashOutcome, repeated: bool) -> str | None:
        if answer is TrashOutcome.TAKEN:
            holder = _holder_of_key(board, target) if next(names_left, None) is not None else None
            which = f"job {holder}, which is live, " if holder else "another live job of its name "
            return f"job {target.uuid} stays in the trash: {which}has its key by now"
        if is_refusal(answer, repeated):
            return f"no job {target.uuid} is in the trash any more"
        return None

    return _run(board, targets, step, Outcome(), restore, judge)


def _holder_of_key(board: JobBoard, target: Target) -> str | None:
    """Return the live job that has the key of a job in the trash, if there still is one."""
    try:
        key = board.get(target.uuid).key
        return None if key is None else board.find(target.name, key).uuid
    except NotFound:
        return None


def purge_all(
    board: JobBoard, targets: Sequence[Target], step: Step, *, by: str | None = None, reason: str | None = None
) -> Outcome:
    """Delete jobs from the trash for good; otherwise as :func:`cancel_all`."""
    from jobboard.board import client_of

    said, client = check_operator(by, reason), client_of(board)

    def purge(backend: Backend, part: Sequence[Target]) -> list[TrashOutcome]:
        return backend.jobs.purge([target.uuid for target in part], *said)

    def judge(target: Target, answer: TrashOutcome, repeated: bool) -> str | None:
        # An earlier try, whose reply was lost, may have purged it.
        if answer is TrashOutcome.DONE or (repeated and client.is_gone(target.uuid)):
            return None
        return f"no job {target.uuid} is in the trash any more"

    return _run(board, targets, step, Outcome(), purge, judge)


def _run(
    board: JobBoard,
    targets: Sequence[Target],
    step: Step,
    outcome: Outcome,
    act: Callable[[Backend, Sequence[Target]], Sequence[Any]],
    judge: Callable[[Target, Any, bool], str | None],
    size: int = _BATCH,
) -> Outcome:
    """Act on a batch after the other.

    :param judge: given an answer, and whether the request was sent again, why the job was not changed; None if it was.
    """
    from jobboard.board import client_of

    client = client_of(board)
    for part in client.batches(targets, size):
        try:
            replies = client.replies(partial(act, client.backend), part)
            refusals = [_refusal(target, reply, judge) for target, reply in zip(part, replies, strict=True)]
        except BoardUnavailable as error:
            raise type(error)(f"{error}; before that, {outcome.done} of {len(targets)} jobs were done") from error
        lines = [refusal for refusal in refusals if refusal is not None]
        outcome.done += len(part) - len(lines)
        outcome.changed += [target.uuid for target, line in zip(part, refusals, strict=True) if line is None]
        outcome.refused += lines
        step(len(part))
    return outcome


def _refusal(
    target: Target, reply: Answer | BoardUnavailable, judge: Callable[[Target, Any, bool], str | None]
) -> str | None:
    if isinstance(reply, BoardUnavailable):
        return f"job {target.uuid} was not changed: {reply}"
    return judge(target, *reply)


class Act(Protocol):
    """Does something to many jobs; is told by whom, and why."""

    def __call__(
        self,
        board: JobBoard,
        targets: Sequence[Target],
        step: Step,
        *,
        by: str | None = None,
        reason: str | None = None,
    ) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Action:
    """One of them.

    :ivar verb: such as ``restore``. :ivar done: what jobs then are, such as ``restored``.
    :ivar states: the states that it is for.
    :ivar act: does it to many.
    """

    verb: str
    done: str
    states: frozenset[JobState]
    act: Act


ACTIONS: Mapping[str, Action] = {
    "release": Action("release", "released", frozenset({JobState.CLAIMED}), release_all),
    "run_now": Action("run now", "made claimable", frozenset({JobState.DELAYED}), run_now_all),
    "cancel": Action("cancel", "cancelled", LIVE, cancel_all),
    "trash": Action("trash", "trashed", LIVE, trash_all),
    "restore": Action("restore", "restored", frozenset({JobState.TRASHED}), restore_all),
    "purge": Action("purge", "purged", frozenset({JobState.TRASHED}), purge_all),
}
