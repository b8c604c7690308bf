"""The graph that a job is a part of, drawn as SVG by the server: it needs no script."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import Response

from jobboard.board import client_of
from jobboard.console.drawing import drawing_of
from jobboard.console.shared import answers_of
from jobboard.console.view import Page, View
from jobboard.graph.folding import MAX_UNFOLDED, folded
from jobboard.graph.model import CANCELLED, GONE, Graph, Node
from jobboard.graph.reading import read_graph
from jobboard.graph.texts import summary_of
from jobboard.operate.graph.formats import MAX_FAILED
from jobboard.states import JobState

#: For how many seconds a graph is kept: to read a large one takes hundreds of requests.
_GRAPH_AGE = 5.0
#: How many characters a line of a box has room for.
_MAX_LINE = 31
_LISTED = {state.value for state in JobState}


@dataclass(frozen=True, slots=True)
class _Standing:
    """What the page keeps of a graph: how it is drawn, and what of its jobs one by one it shows.

    :ivar failed: the first of those that failed, of ``failed_number``.
    """

    graph: Graph
    is_over: bool
    held: int
    created_on: datetime | None
    ended_on: datetime | None
    failed: tuple[Node, ...]
    failed_number: int


def _read(view: View, uuid: str) -> _Standing:
    # Results, which may be large, are not shown here.
    graph = read_graph(client_of(view.board), uuid, read_result=lambda _row: None)
    failed = graph.failed
    return _Standing(
        folded(graph),
        graph.is_over,
        len(graph.held),
        graph.created_on,
        graph.ended_on,
        tuple(failed[:MAX_FAILED]),
        len(failed),
    )


def show(view: View) -> Response:
    """Show the graph around a job, folded if it is large, and the same as a table."""
    try:
        uuid = str(UUID(view.request.path_params["uuid"]))
    except ValueError:
        raise HTTPException(404, "that is no uuid of a job") from None
    job = view.board.get(uuid)
    standing: _Standing = answers_of(view).get(("graph", uuid), lambda: _read(view, uuid), _GRAPH_AGE)
    graph = standing.graph
    return view.render(
        "graph.html",
        job=job,
        graph=graph,
        standing=standing,
        drawing=drawing_of(graph),
        summary=summary_of(graph),
        links={id: _link(view, node) for id, node in graph.nodes.items()},
        lines={id: _line_of(node) for id, node in graph.nodes.items()},
        has_keys=any(node.key is not None for node in graph.nodes.values()),
        most=MAX_UNFOLDED,
    )


def _line_of(node: Node) -> str:
    """Return what stands in a box below the name; lines lead to parents, and keys differ at their end."""
    state = node.state.lower()
    said = state if node.waits_for in (None, "parents") else f"{state}: {node.waits_for}"
    said = said if len(said) <= _MAX_LINE else f"{said[: _MAX_LINE - 1]}…"
    mark, left = node.uuid[-8:] if node.key is None else node.key, _MAX_LINE - len(said) - len(" · ")
    if node.number > 1 or left < len(node.uuid[-8:]):
        return said
    return f"{said} · {mark if len(mark) <= left else f'…{mark[1 - left :]}'}"


def _link(view: View, node: Node) -> str | None:
    """Return where a node leads to: the job, or the list of the jobs that it stands for; None if there is no such."""
    if node.number == 1:
        return None if node.state in (CANCELLED, GONE) else view.url(f"jobs/{node.uuid}")
    return view.url("jobs", name=node.name, state=[node.state.lower()]) if node.state in _LISTED else None


PAGES = (Page("jobs/{uuid}/graph", show),)
