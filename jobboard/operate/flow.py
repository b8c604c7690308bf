"""How the parents of a job stand, and its steps and signals: in a few requests, for people and as plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobboard.backends.edge_rows import EdgeCounts, SignalRow, StepRow
from jobboard.backends.outcomes import has_children, may_have_children
from jobboard.board import client_of
from jobboard.job import row_of
from jobboard.validation import moment

if TYPE_CHECKING:
    from jobboard.backends.rows import JobRow
    from jobboard.board import JobBoard
    from jobboard.client import BackendClient
    from jobboard.job import Job

#: Reads what is stored of a value.
Decode = Callable[[bytes], Any]

#: How many steps of a job are read, the first ones, and how many by a request.
MAX_STEPS, _PAGE = 2000, 500

#: The steps that the library takes by itself.
_OWN = {"sleep": "sleeps", "wait": "waits for", "signal": "goes on with", "timeout": "waited too long for"}


@dataclass(frozen=True, slots=True)
class FanIn:
    """How many parents a job has, and how they stand; ``gone`` were cancelled or purged."""

    done: int
    failed: int
    gone: int
    total: int

    def __str__(self) -> str:
        """Say it: ``7,312 of 10,000, 3 failed``."""
        failed = f", {self.failed:,} failed" if self.failed else ""
        gone = f", {self.gone:,} cancelled or purged" if self.gone else ""
        return f"{self.done:,} of {self.total:,}{failed}{gone}"


@dataclass(frozen=True, slots=True)
class Flow:
    """What is known of one job beside its record.

    :ivar parents: None if it has none.
    :ivar has_children: whether a job waits for it, or has waited.
    :ivar steps: the first :data:`MAX_STEPS`; ``has_more_steps``: whether there are more.
    :ivar signals: those that were sent to it, the first one first.
    """

    parents: FanIn | None = None
    has_children: bool = False
    steps: tuple[StepRow, ...] = ()
    has_more_steps: bool = False
    signals: tuple[SignalRow, ...] = ()

    @property
    def has_relatives(self) -> bool:
        """Whether its graph has more jobs than itself."""
        return self.parents is not None or self.has_children


def flow_of(board: JobBoard, job: Job) -> Flow:
    """Return how the parents of a job stand, and what it has done so far.

    Three requests, four of a job that is complete, and one for each 500 steps up to :data:`MAX_STEPS`; none on a store
    that keeps no dependencies.

    :raises BoardUnavailable: the store can't be reached.
    """
    client, row = client_of(board), row_of(job)
    if not board.capabilities.edges:
        return Flow()
    steps, has_more = _read_steps(board, job.uuid)
    signals = client.call(client.backend.steps.signals, job.uuid)
    return Flow(
        fan_in_of(client.call(client.backend.edges.counts, [job.uuid])[0]),
        _has_children(client, row),
        tuple(steps),
        has_more,
        tuple(sorted(signals, key=lambda signal: signal.at)),
    )


def _has_children(client: BackendClient, row: JobRow) -> bool:
    if has_children(row):
        return True
    return may_have_children(row) and bool(client.call(client.backend.edges.first_children, [row.uuid], 1)[0].edges)


def fan_in_of(counts: EdgeCounts) -> FanIn | None:
    """Return the numbers of a job's parents; None if it has none."""
    total = counts.open + counts.done + counts.failed + counts.gone
    return FanIn(counts.done, counts.failed, counts.gone, total) if total else None


def _read_steps(board: JobBoard, uuid: str) -> tuple[list[StepRow], bool]:
    client, steps = client_of(board), list[StepRow]()
    for first in range(0, MAX_STEPS, _PAGE):
        page = client.call(client.backend.steps.load, uuid, first, _PAGE)
        steps += page
        if len(page) < _PAGE:
            return steps, False
    return steps, bool(client.call(client.backend.steps.load, uuid, MAX_STEPS, 1))


def decoder(board: JobBoard) -> Decode:
    """Return what reads the values of steps and signals; what can't be decoded stays as it is stored."""

    def read(stored: bytes) -> Any:
        try:
            return client_of(board).decode(stored)
        except ValueError:
            return stored

    return read


def flow_view(flow: Flow, decode: Decode | None = None) -> dict[str, Any]:
    """Return it as plain data.

    :param decode: also what steps have returned and signals have brought, read by this; None: without.
    """
    parents = flow.parents
    return {
        "parents": parents and {
            "total": parents.total, "done": parents.done, "failed": parents.failed, "gone": parents.gone,
        },
        "steps": [
            {"number": step.number, "name": step.name, "at": moment(step.at)}
            | ({} if decode is None else {"result": decode(step.result)})
            for step in flow.steps
        ],
        "signals": [
            {"name": signal.name, "at": moment(signal.at)} | ({} if decode is None else {"value": decode(signal.value)})
            for signal in flow.signals
        ],
    }  # fmt: skip


def timeline_of(flow: Flow, decode: Decode | None = None) -> list[dict[str, Any]]:
    """Return the steps and the signals in the order in which they came, each with the seconds since the one before.

    :param decode: reads what each step has returned, and each signal has brought; None: that is left out.
    """
    lines = [(step.at, *_named(step), None if _is_own(step) else step.result) for step in flow.steps]
    lines += [(signal.at, "signal sent", signal.name, signal.value) for signal in flow.signals]
    lines.sort(key=lambda line: line[0])
    before = [None, *(line[0] for line in lines)]
    return [
        {
            "at": moment(at), "what": what, "name": name, "after": None if last is None else max(0.0, at - last),
            "value": None if decode is None or raw is None else decode(raw),
        }
        for (at, what, name, raw), last in zip(lines, before, strict=False)
    ]  # fmt: skip


def _is_own(step: StepRow) -> bool:
    """Whether the library takes this step by itself; the names of such begin with a colon."""
    return step.name.startswith(":")


def _named(step: StepRow) -> tuple[str, str]:
    """Return what a step is, and its name; the library's own are called ``:sleep``, ``:wait approved``."""
    if not _is_own(step):
        return "step", f"{step.number + 1}. {step.name}"
    what, _, name = step.name[1:].partition(" ")
    return _OWN.get(what, what), name
