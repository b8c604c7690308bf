"""Writes changes of jobs, each together with what is posted in the same step, and resolves parents that have ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobboard.backends.edge_rows import parent_of_graph
from jobboard.backends.errors import after_a_change
from jobboard.backends.etcd.batches import Batches
from jobboard.backends.etcd.changes import Change
from jobboard.backends.etcd.job_writer import JobWriter
from jobboard.backends.etcd.leftovers import Leftovers
from jobboard.backends.etcd.planning import Existing, needs_look
from jobboard.backends.etcd.posting import Posting
from jobboard.backends.etcd.resolving import Resolver
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.kv import jobs
from jobboard.backends.rows import Refused, Verdict

#: A request, and what is to be written for it; None: nothing.
Decided = tuple[jobs.Change[StoredJob, Any], Change | None]


class Ends:
    """What posts nothing is written in one request; what does in one for each."""

    def __init__(
        self, writer: JobWriter, posting: Posting, batches: Batches, resolver: Resolver, leftovers: Leftovers
    ) -> None:
        self._writer, self._posting, self._batches = writer, posting, batches
        self._resolver, self._leftovers = resolver, leftovers

    def write(self, decided: Sequence[Decided], is_again: bool) -> list[bool | Refused | None]:
        """Return for each what became of it, as :meth:`JobWriter.apply`; Refused: its postings are refused.

        :param is_again: whether one of them could not be written before.
        """
        plain = [write for request, write in decided if write is not None and not _posts(request, write)]
        written, ended = self._writer.apply(plain), list[bool | Refused]()
        with after_a_change(lambda: True in written or True in ended):
            for request, write in decided:
                if write is not None and _posts(request, write):
                    ended.append(self._end(request, write, is_again))
        of_plain, of_ended = iter(written), iter(ended)
        results = [
            True if write is None else next(of_ended if _posts(request, write) else of_plain)
            for request, write in decided
        ]
        pairs = zip(decided, results, strict=True)
        done = [(request, write) for (request, write), result in pairs if write is not None and result is True]
        graphs = [parent_of_graph(request.seal) for request, _ in done if request.seal]
        self._resolver.after([write for _, write in done], graphs)
        self._leftovers.after_purge(
            [write.job.row.uuid for _, write in done if write.new is None and write.job.row.may_have_edges]
        )
        return results

    def _end(self, request: jobs.Change[StoredJob, Any], write: Change, is_again: bool) -> bool | Refused:
        mark = None
        if request.seal is not None:
            verdict, mark = self._batches.sealing(request.seal)
            if verdict is Verdict.LOST:
                return Refused(())
            mark = mark if verdict is Verdict.DONE else None
        must_look = is_again or needs_look(write.posts)
        existing = self._posting.existing(write.posts) if must_look else Existing()
        result = self._batches.write(write, existing, int(is_again), mark)
        return result if isinstance(result, bool) else Refused(tuple(result[: len(request.posts)]))


def _posts(request: jobs.Change[StoredJob, Any], write: Change) -> bool:
    return bool(write.posts) or request.seal is not None
