"""What the end of a claim posts: in its own step, or, where that is too large, before it and sealed by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from jobboard.backends.base import Backend
from jobboard.backends.rows import ClaimAnswer, Consumption, NewJob, Refused, Verdict, verdict_of
from jobboard.board.posting_errors import error_of_posting, error_of_refusal
from jobboard.client.graph import Graph, GraphRefused
from jobboard.client.graph_staging import Staged
from jobboard.client.graphs import GraphPoster
from jobboard.errors import TooLarge


class Following:
    """What follows one end.

    :param poster: posts what is too large for a step.
    :raises AlreadyPosted, InvalidPosting, NotFound: it is too large for a step, and refused.
    """

    def __init__(self, poster: GraphPoster, backend: Backend, graph: Graph | None = None) -> None:
        self._poster, self._backend, self._graph = poster, backend, graph
        #: What the step of the end posts.
        self.posts: tuple[NewJob, ...] = ()
        #: All of the graph, if that is posted already, and waits for the end to seal it.
        self._staged: Staged | None = None
        if graph is not None and graph.fits(backend):
            self.posts = tuple(graph.jobs)
        elif graph is not None:
            self._stage(graph)

    def _stage(self, graph: Graph) -> None:
        try:
            self._staged = self._poster.stage(graph)
        except GraphRefused as refused:
            raise error_of_posting(refused.new, refused.answer) from None
        self.posts = ()

    @property
    def primitive(self) -> Callable[[Sequence[Consumption]], Sequence[ClaimAnswer]]:
        """The request that sends the end; the store's own one, which others may share, unless that may be too large."""
        may_be_too_large = self.posts and self._graph is not None and self._graph.may_be_too_large
        return self.consume if may_be_too_large else self._backend.jobs.consume

    def consume(self, ends: Sequence[Consumption]) -> Sequence[ClaimAnswer]:
        """End a claim; if a step can't take what follows, that is posted before."""
        try:
            return self._backend.jobs.consume([self.of(end) for end in ends])
        except TooLarge:
            if self._staged is not None or self._graph is None:
                raise
            self._stage(self._graph)
        return self._backend.jobs.consume([self.of(end) for end in ends])

    def of(self, end: Consumption) -> Consumption:
        """Return the end with what follows it."""
        seal = None if self._staged is None else self._staged.graph
        return replace(end, posts=self.posts, seal=seal) if self._graph is not None else end

    def check(self, answer: ClaimAnswer) -> None:
        """Give up the graph of an end that was not made; raise why, if what was to follow is refused."""
        if self._staged is not None and verdict_of(answer) not in (Verdict.DONE, Verdict.REPEATED):
            self._poster.drop(self._staged)
        if isinstance(answer, Refused):
            raise error_of_refusal(self.posts, answer)
