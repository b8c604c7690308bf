"""The graph that a job is a part of, drawn as SVG by the server: it needs no script."""

from __future__ import annotations

from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import Response

from jobboard.console.drawing import drawing_of
from jobboard.console.shared import answers_of
from jobboard.console.view import Page, View
from jobboard.operate.graph.folding import MAX_UNFOLDED, folded
from jobboard.operate.graph.formats import summary_of
from jobboard.operate.graph.model import Graph, Node
from jobboard.operate.graph.reading import read_graph
from jobboard.states import JobState

#: For how many seconds a graph is kept: to read a large one takes hundreds of requests.
_GRAPH_AGE = 5.0
_LISTED = {state.value.lower() for state in JobState}


def show(view: View) -> Response:
    """Show the graph around a job, folded if it is large, and the same as a table."""
    try:
        uuid = str(UUID(view.request.path_params["uuid"]))
    except ValueError:
        raise HTTPException(404, "that is no uuid of a job") from None
    job = view.board.get(uuid)
    graph: Graph = answers_of(view).get(("graph", uuid), lambda: folded(read_graph(view.board, uuid)), _GRAPH_AGE)
    return view.render(
        "graph.html",
        job=job,
        graph=graph,
        drawing=drawing_of(graph),
        summary=summary_of(graph),
        links={id: _link(view, node) for id, node in graph.nodes.items()},
        most=MAX_UNFOLDED,
    )


def _link(view: View, node: Node) -> str | None:
    """Return where a node leads to: the job, or the list of the jobs that it stands for; None if there is no such."""
    if node.number == 1:
        return None if node.state == "gone" else view.url(f"jobs/{node.id}")
    return view.url("jobs", name=node.name, state=[node.state]) if node.state in _LISTED else None


PAGES = (Page("jobs/{uuid}/graph", show),)
