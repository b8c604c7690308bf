"""What jobs wait for on Redis: parents, and graphs. Each method is one script and one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobboard.backends.edge_rows import EdgeCounts, EdgePage, EdgeRow, LinkOutcome, Outcome, without_results
from jobboard.backends.edge_store import EdgeStore
from jobboard.backends.reasons import GRAPH_DROPPED
from jobboard.backends.redis.client import RedisClient
from jobboard.backends.redis.codec import pack, text_of
from jobboard.backends.redis.ends import VERDICTS
from jobboard.backends.rows import Fence, Verdict

_OUTCOMES = {outcome.name.encode(): outcome for outcome in Outcome}
_LINK_OUTCOMES = {outcome.name.encode(): outcome for outcome in LinkOutcome}


class Edges(EdgeStore):
    """The edges of one board."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    def link(self, child: str, parents: Sequence[str], fence: Fence | None = None) -> LinkOutcome:
        claim = () if fence is None else ([fence.uuid, fence.who, fence.token],)
        return _LINK_OUTCOMES[self._client.change("link", pack([child, list(parents), *claim]))[1]]

    def seal(self, graph: str) -> Verdict:
        return VERDICTS[self._client.change("seal", graph)[1]]

    def drop(self, graph: str) -> None:
        self._client.change("drop", graph)

    def resolve(self, parents: Sequence[str]) -> list[str]:
        return [text_of(parent) for parent in self._client.change_all("resolve", list(parents))]

    def parents(self, child: str, cursor: object | None, size: int) -> EdgePage:
        return self._parents([child], cursor, size)[0]

    def first_parents(self, children: Sequence[str], size: int) -> list[EdgePage]:
        return [without_results(page) for page in self._parents(children, None, size)] if children else []

    def _parents(self, children: Sequence[str], cursor: object | None, size: int) -> list[EdgePage]:
        wanted = pack([[child, str(cursor or "")] for child in children])
        _, pages = self._client.read("parents", wanted, str(size))
        return [_parents_of(child, *page) for child, page in zip(children, pages, strict=True)]

    def children(self, parent: str, cursor: object | None, size: int) -> EdgePage:
        return self._children([parent], cursor, size)[0]

    def first_children(self, parents: Sequence[str], size: int) -> list[EdgePage]:
        return self._children(parents, None, size) if parents else []

    def _children(self, parents: Sequence[str], cursor: object | None, size: int) -> list[EdgePage]:
        wanted = pack([[parent, str(cursor or "")] for parent in parents])
        _, pages = self._client.read("children", wanted, str(size))
        return [_children_of(parent, *page) for parent, page in zip(parents, pages, strict=True)]

    def counts(self, children: Sequence[str]) -> list[EdgeCounts]:
        if not children:
            return []
        return [EdgeCounts(*numbers) for numbers in self._client.read("edge_counts", pack(list(children)))[1]]

    def graphs(self, children: Sequence[str]) -> list[str | None]:
        if not children:
            return []
        return [text_of(graph) or None for graph in self._client.read("graphs", pack(list(children)))[1]]

    def dropped(self, uuids: Sequence[str]) -> list[bool]:
        reasons = self._client.read("dropped", pack(list(uuids)))[1] if uuids else []
        return [text_of(reason) == GRAPH_DROPPED for reason in reasons]


def _parents_of(child: str, last: bytes, found: Sequence[Sequence[Any]]) -> EdgePage:
    edges = [
        EdgeRow(child, text_of(parent), _OUTCOMES[outcome], text_of(name), result, bool(is_cut))
        for parent, outcome, name, result, is_cut in found
    ]
    return EdgePage(edges, text_of(last) or None)


def _children_of(parent: str, last: bytes, name: bytes, found: Sequence[bytes]) -> EdgePage:
    edges = [
        EdgeRow(text_of(child), parent, _OUTCOMES[outcome], text_of(name))
        for child, outcome in zip(found[::2], found[1::2], strict=True)
    ]
    return EdgePage(edges, text_of(last) or None)
