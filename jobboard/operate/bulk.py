"""What operators do to jobs, by name: on which states, and to many of them, a batch a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from jobboard.backends.reasons import released, to_priority, trashed_by_operator
from jobboard.backends.roles import JobStore
from jobboard.backends.rows import CancelOutcome, Trashing, TrashOutcome, Verdict, is_refusal, verdict_of
from jobboard.errors import BoardUnavailable, NotFound, restated
from jobboard.job import row_of
from jobboard.naming import named
from jobboard.states import LIVE, JobPriority, JobState
from jobboard.validation import check_operator

if TYPE_CHECKING:
    from jobboard.backends.rows import JobRow
    from jobboard.board import JobBoard
    from jobboard.client.sharing import Answer
    from jobboard.job import Job


#: How many jobs one request is about.
_BATCH = 100
#: How many names are listed.
_MAX_NAMES = 5
#: Of how many jobs that can't be restored, or purged, it is looked up why.
_MAX_NAMED = 20

Step = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Target:
    """A job that was selected, and the token of the claim that it had then."""

    uuid: str
    name: str
    token: int
    key: str | None


@dataclass(slots=True)
class BulkOutcome:
    """How many jobs were changed, how many of them only asked to end, and a line for each that was not changed.

    ``changed`` are the uuids of the former. ``gone`` are lines of those that had left meanwhile what they were selected
    from: of many some do, and nothing is left to do to them.
    """

    done: int = 0
    asked: int = 0
    refused: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    @property
    def unchanged(self) -> list[str]:
        """All lines."""
        return [*self.refused, *self.gone]


def targets_of(jobs: Iterable[Job]) -> list[Target]:
    """Return what actions need of each job; far less than a handle holds."""
    return [target_of(row_of(job)) for job in jobs]


def target_of(row: JobRow) -> Target:
    return Target(row.uuid, row.name, row.token, row.key)


def of_what(targets: Sequence[Target]) -> str:
    """Return how many of what: ``1 job named 'mail'``, ``3 jobs (2 resize, 1 mail)``."""
    number = f"{len(targets)} job{'s' * (len(targets) != 1)}"
    count = Counter(target.name for target in targets).most_common()
    if len(count) < 2:
        return f"{number} named {count[0][0]!r}" if count else number
    names = [f"{number} {name}" for name, number in count[:_MAX_NAMES]]
    names += [f"{len(count) - _MAX_NAMES} other names"] if len(count) > _MAX_NAMES else []
    return f"{number} ({', '.join(names)})"


def summary_of(targets: Sequence[Target], action: Action, outcome: BulkOutcome) -> str:
    """Return what has become of them, but for why some were refused: ``2 of 3 jobs (2 resize, 1 mail) restored``."""
    what = of_what(targets)
    text = f"{outcome.done} of {what} {action.done}" if outcome.unchanged else f"{what} {action.done}"
    if outcome.gone:
        gone = action.gone if len(outcome.gone) > 1 else action.gone.replace("were", "was", 1)
        text += f"; {len(outcome.gone)} {gone}"
    asked = f"; {outcome.asked} of them are claimed, and their owners have been asked to end" if outcome.asked else ""
    return text + asked


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to one job's part of a request, and whether the request was sent again."""

    board: JobBoard
    target: Target
    answer: Any
    repeated: bool
    outcome: BulkOutcome


#: Sends a request about some jobs, with by whom and why; has the name of the primitive.
Send = Callable[[JobStore, str | None, str | None, Sequence[Target]], Sequence[Any]]
#: Returns why a job was not changed; None if it was.
Refusal = Callable[[Answered], str | None]


@dataclass(frozen=True, slots=True)
class Action:
    """One verb of operators. Each job is one atomic change.

    :ivar verb: such as ``restore``.
    :ivar done: what jobs then are, such as ``restored``.
    :ivar states: the states that it is for.
    :ivar gone: what is said of those that were in these, and are no more.
    """

    verb: str
    done: str
    states: frozenset[JobState]
    gone: str
    send: Send
    refusal: Refusal
    why: Callable[[str | None, str | None], str | None] = lambda _by, reason: reason
    batch: int = _BATCH

    def act(
        self,
        board: JobBoard,
        targets: Sequence[Target],
        step: Step = lambda _: None,
        *,
        by: str | None = None,
        reason: str | None = None,
    ) -> BulkOutcome:
        """Do it to many jobs.

        :param step: called with the number of jobs that a request was about.
        :param by: the operator, for the history.
        :param reason: why, for the history.
        :raises BoardUnavailable: the store can't be reached; says how many jobs are done.
        """
        from jobboard.board import client_of

        by, reason = check_operator(by, reason)
        client, outcome, said = client_of(board), BulkOutcome(), (by, self.why(by, reason))
        for part in client.batches(targets, self.batch):
            try:
                replies = client.replies(partial(self.send, client.backend.jobs, *said), part)
                for target, reply in zip(part, replies, strict=True):
                    self._count(board, target, reply, outcome)
            except BoardUnavailable as error:
                done = f"before that, {outcome.done} of {len(targets)} jobs were done"
                raise restated(error, f"{error}; {done}") from error
            step(len(part))
        return outcome

    def _count(self, board: JobBoard, target: Target, reply: Answer | BoardUnavailable, outcome: BulkOutcome) -> None:
        if isinstance(reply, BoardUnavailable):
            refusal: str | None = f"was not changed: {reply}"
        else:
            refusal = self.refusal(Answered(board, target, *reply, outcome))
            outcome.asked += reply[0] is CancelOutcome.ASKED
        if refusal is None:
            outcome.done += 1
            outcome.changed.append(target.uuid)
            return
        stays = isinstance(reply, BoardUnavailable) or reply[0] is TrashOutcome.TAKEN
        (outcome.refused if stays else outcome.gone).append(f"{named(target)} {refusal}")


def _by_uuid(primitive: str) -> Send:
    def send(jobs: JobStore, by: str | None, reason: str | None, part: Sequence[Target]) -> Any:
        return getattr(jobs, primitive)([target.uuid for target in part], by, reason)

    send.__name__ = primitive
    return send


def trash(jobs: JobStore, by: str | None, reason: str | None, part: Sequence[Target]) -> Sequence[Any]:
    return jobs.trash([Trashing(target.uuid, None, reason=reason, by=by) for target in part])


def release(jobs: JobStore, by: str | None, reason: str | None, part: Sequence[Target]) -> Sequence[Any]:
    return [jobs.release(target.uuid, target.token, reason or "") for target in part]


def _refused(text: str) -> Refusal:
    return lambda one: text if is_refusal(one.answer, one.repeated) else None


def _lost(text: str) -> Refusal:
    """A repeat, also one of somebody else's, finds what is wanted."""
    return lambda one: text if verdict_of(one.answer) is Verdict.LOST else None


def _not_restored(one: Answered) -> str | None:
    if one.answer is TrashOutcome.TAKEN:
        from jobboard.operate.restoring import holder_of_key

        is_asked = len(one.outcome.refused) < _MAX_NAMED
        holder = holder_of_key(one.board, one.target.name, one.target.key) if is_asked else None
        which = f"{named(holder)}, which is live, " if holder else "another live job of its name "
        return f"stays in the trash: {which}has its key by now"
    return _not_in_trash(one) if is_refusal(one.answer, one.repeated) else None


def _not_purged(one: Answered) -> str | None:
    """An earlier try, whose reply was lost, may have purged it."""
    from jobboard.board import client_of

    if one.answer is TrashOutcome.DONE or (one.repeated and client_of(one.board).is_gone(one.target.uuid)):
        return None
    return _not_in_trash(one)


def _not_in_trash(one: Answered) -> str:
    """Return how a job stands that is not in the trash; of the first that are refused as it is now."""
    if len(one.outcome.gone) >= _MAX_NAMED:
        return "is not in the trash"
    try:
        state = one.board.get(one.target.uuid).state
    except NotFound:
        return _NOT_ON_BOARD
    return "is complete" if state is JobState.COMPLETE else f"is not in the trash: it is {state.value.lower()}"


_NOT_ON_BOARD = "is not on the board any more"
_TRASHED, _LEFT_TRASH = frozenset({JobState.TRASHED}), "were not in the trash any more by then"

ACTIONS: Mapping[str, Action] = {
    "release": Action(
        "release", "released", frozenset({JobState.CLAIMED}), "had lost their claims by then", release,
        _refused("lost its claim: that ended before it could be released"), released, batch=1,
    ),
    "run_now": Action(
        "run now", "made claimable", frozenset({JobState.DELAYED}), "were not delayed any more by then",
        _by_uuid("run_now"), _refused("is not delayed"),
    ),
    "cancel": Action("cancel", "cancelled", LIVE, "had ended by then", _by_uuid("cancel"), _refused(_NOT_ON_BOARD)),
    "trash": Action(
        "trash", "trashed", LIVE, "had ended by then", trash, _lost(_NOT_ON_BOARD),
        lambda _by, reason: trashed_by_operator(reason),
    ),
    "restore": Action("restore", "restored", _TRASHED, _LEFT_TRASH, _by_uuid("restore"), _not_restored),
    "purge": Action("purge", "purged", _TRASHED, _LEFT_TRASH, _by_uuid("purge"), _not_purged),
}  # fmt: skip


def reprioritizing(priority: JobPriority | str) -> Action:
    """Return the action that gives jobs that wait another priority, also those that have it already."""
    wish = JobPriority.convert(priority)

    def reprioritize(jobs: JobStore, by: str | None, reason: str | None, part: Sequence[Target]) -> Sequence[Any]:
        return jobs.reprioritize([target.uuid for target in part], int(wish), by, reason)

    states = LIVE - {JobState.CLAIMED}
    lost = _lost("is claimed, or not on the board any more")
    gone = "were claimed or had ended by then"
    return Action(
        "reprioritize", "reprioritized", states, gone, reprioritize, lost, lambda _by, why: to_priority(wish, why)
    )
