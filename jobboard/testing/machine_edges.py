"""The steps of :class:`~jobboard.testing.machine.BoardMachine` that let jobs wait for others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from jobboard.errors import AlreadyPosted, ClaimLost, InvalidPosting, NotFound
from jobboard.events import EventKind
from jobboard.job import Job, Posting
from jobboard.states import LIVE, JobPriority, JobState
from jobboard.testing.machine_limits import LimitSteps
from jobboard.testing.machine_values import FAR, FEW, clients, contents, keys, lanes, names, picks, priorities
from jobboard.testing.model import ModelJob
from jobboard.types import IfFailedName
from jobboard.validation import new_uuid

#: The jobs on the board come first, so that most of them are parents that have not ended.
relatives = st.integers(0, 7)
some = st.lists(relatives, min_size=1, max_size=3)
at_most_one = st.lists(relatives, max_size=1)
ways = st.sampled_from(["wait", "cancel", "run"])


class EdgeSteps(LimitSteps):
    """Producers whose jobs wait for parents of all kinds."""

    #: Every claim that was ever made: its handle, and by whom.
    claims: list[tuple[Job, str]]

    def _may_post(self) -> bool:
        return self.harness.capabilities.edges and len(self.model.in_order()) < FEW

    def _may_end(self) -> bool:
        return self.harness.capabilities.edges and bool(self.claims)

    def _any_claim(self, pick: int) -> tuple[Job, str]:
        """The last claims are the ones that may hold."""
        return self.claims[-1 - pick % len(self.claims)]

    def _relatives(self, chosen: Iterable[int]) -> list[str]:
        """Return some jobs that are or were on the board: first those that live, then the last ones."""
        known = [*self.model.names][::-1]
        known.sort(key=lambda uuid: self.model.state_of(uuid) not in LIVE)
        return list(dict.fromkeys(known[pick % len(known)] for pick in chosen))

    @precondition(_may_post)
    @rule(
        client=clients, name=names, priority=priorities, content=contents, delayed=st.booleans(), lane=lanes,
        key=st.none() | keys, after=some, if_failed=ways,
    )  # fmt: skip
    def post_after(
        self,
        client: int,
        name: str,
        priority: JobPriority,
        content: int,
        delayed: bool,
        lane: str | None,
        key: str | None,
        after: list[int],
        if_failed: IfFailedName,
    ) -> None:
        parents = self._relatives(after)

        def post() -> Job:
            return self.boards[client].post(
                name, {"n": content}, priority=priority, delay=FAR if delayed else None, lane=lane, key=key,
                after=parents, if_failed=if_failed,
            )  # fmt: skip

        if self.model.purged & set(parents) or (key is not None and self.model.with_key(name, key)):
            with pytest.raises((NotFound, AlreadyPosted)):
                post()
        else:
            self.model.post(post().uuid, name, key, priority, content, None, delayed, lane, parents, if_failed)

    @precondition(_may_post)
    @rule(client=clients, nodes=st.lists(st.tuples(names, priorities, ways, at_most_one), min_size=4, max_size=4))
    def post_a_diamond(self, client: int, nodes: list[tuple[str, JobPriority, IfFailedName, list[int]]]) -> None:
        """Post a graph of four jobs, each of which may wait for one that is there besides."""
        others = [self._relatives(outside) for *_, outside in nodes]
        inside: list[list[int]] = [[], [0], [0], [1, 2]]
        batch: list[Posting] = []
        for (name, priority, if_failed, _), parents, own in zip(nodes, others, inside, strict=True):
            after: list[Posting | str] = [*parents, *(batch[number] for number in own)]
            batch.append(Posting(name, {"n": 0}, priority=priority, after=after, if_failed=if_failed))
        if self.model.purged & {uuid for parents in others for uuid in parents}:
            with pytest.raises(NotFound):
                self.boards[client].post_many(batch)
            return
        jobs = self.boards[client].post_many(batch)
        for job, (name, priority, if_failed, _), parents, own in zip(jobs, nodes, others, inside, strict=True):
            after_uuids = [*parents, *(jobs[number].uuid for number in own)]
            self.model.post(job.uuid, name, None, priority, 0, None, False, None, after_uuids, if_failed)

    @precondition(_may_post)
    @rule(
        client=clients, name=names, priority=priorities, lane=lanes, before=some, after=at_most_one, if_failed=ways,
    )  # fmt: skip
    def post_before(
        self,
        client: int,
        name: str,
        priority: JobPriority,
        lane: str | None,
        before: list[int],
        after: list[int],
        if_failed: IfFailedName,
    ) -> None:
        """Give jobs that wait one more parent."""
        children, parents = self._relatives(before), self._relatives(after)

        def post() -> Job:
            return self.boards[client].post(
                name, {"n": 0}, priority=priority, lane=lane, before=children, after=parents, if_failed=if_failed
            )

        is_cycle = any(self.model.is_above(child, parent) for child in children for parent in parents)
        if is_cycle or self.model.purged & set(parents) or not all(map(self._takes_parents, children)):
            with pytest.raises((InvalidPosting, NotFound)):
                post()
            return
        uuid = post().uuid
        self.model.post(uuid, name, None, priority, 0, None, False, lane, parents, if_failed)
        for child in children:
            self.model.jobs[child].parents.add(uuid)

    def _takes_parents(self, uuid: str) -> bool:
        return self.model.state_of(uuid) in LIVE | {JobState.TRASHED} and self.model.jobs[uuid].waits

    @precondition(_may_end)
    @rule(
        pick=picks, value=contents, name=names, priority=priorities, lane=lanes, after=at_most_one, if_failed=ways
    )  # fmt: skip
    def consume_and_post(
        self,
        pick: int,
        value: int,
        name: str,
        priority: JobPriority,
        lane: str | None,
        after: list[int],
        if_failed: IfFailedName,
    ) -> None:
        """Let a job follow another one, in the step that ends that."""
        handle, who = self._any_claim(pick)
        job, board = self.model.holds(handle.uuid, who, handle.token or 0), self.boards[value % 2]
        uuid, parents = new_uuid(), [handle.uuid, *self._relatives(after)]
        following = Posting(name, {"n": 0}, uuid=uuid, priority=priority, lane=lane, after=parents, if_failed=if_failed)
        if job is None or self.model.purged & set(parents):
            with pytest.raises(ClaimLost if job is None else NotFound):
                board.consume(handle, who, value, post=[following])
            return
        board.consume(handle, who, value, post=[following])
        job.end_claim(JobState.COMPLETE)
        job.result = value
        self.model.settle()
        self.model.post(uuid, name, None, priority, 0, None, False, lane, parents, if_failed)

    @precondition(lambda self: self.harness.capabilities.edges and self.model.jobs)
    @rule(client=clients, pick=picks)
    def look_at_relatives(self, client: int, pick: int) -> None:
        jobs = sorted(self.model.jobs.values(), key=lambda job: (not job.parents, -job.number))
        job = jobs[pick % len(jobs)]
        handle = self.boards[client].get(job.uuid)
        # Of a posting that was refused, since another job of ``before`` waits no more, an edge may stay for a moment.
        # And a job that waits no more does not learn of the restore of a parent.
        told = {uuid for uuid in job.parents if job.waits or self.model.state_of(uuid) not in LIVE}
        shown = {each.uuid: (each.name, each.state, each.result) for each in handle.parents() if each.uuid in told}
        assert shown == {uuid: self._shown(uuid) for uuid in told}
        children = {child.uuid: child.state for child in handle.children() if child.state is not None}
        assert children == {child.uuid: child.state for child in self.model.jobs.values() if job.uuid in child.parents}
        resolved = [line for line in handle.history if line.kind is EventKind.RESOLVED]
        assert len(resolved) <= 1 + job.waited_again - job.waits

    def _shown(self, uuid: str) -> tuple[str, JobState | None, int | None]:
        parent: ModelJob | None = self.model.jobs.get(uuid)
        result = parent.result if parent is not None and parent.state is JobState.COMPLETE else None
        return self.model.names[uuid], self.model.state_of(uuid), result
