"""The graph around a job, as it is read from a board, and the texts that are made of it."""

from __future__ import annotations

import pytest
from helpers.graphs import count_requests, end, post_graph
from helpers.memory_board import board

from jobboard import InvalidPosting, JobBoard, Posting
from jobboard.board import client_of
from jobboard.graph.folding import folded
from jobboard.graph.model import Edge, Graph, Node
from jobboard.graph.reading import jobs_below
from jobboard.graph.texts import summary_of
from jobboard.operate.flow import flow_of
from jobboard.operate.graph.formats import dot_of, mermaid_of, plain_of, tree_of
from jobboard.operate.why import why

__all__ = ["board"]

PIPELINE = {
    "fetch": [], "resize": ["fetch"], "scan": ["fetch"], "page": ["resize", "scan"], "audit": ["scan"], "else": [],
}  # fmt: skip


@pytest.mark.parametrize("start", ["fetch", "resize", "scan", "page", "audit"])
def test_from_each_job_of_a_graph_all_of_it_is_seen_and_nothing_else(board: JobBoard, start: str) -> None:
    jobs = post_graph(board, PIPELINE)
    graph = board.graph(jobs[start].uuid)
    assert graph.root == jobs[start].uuid
    assert next(iter(graph.nodes)) == graph.root
    assert sorted(node.name for node in graph.nodes.values()) == ["audit", "fetch", "page", "resize", "scan"]
    names = {job.uuid: name for name, job in jobs.items()}
    edges = {(names[edge.parent], names[edge.child]) for edge in graph.edges}
    assert edges == {(parent, child) for child, parents in PIPELINE.items() for parent in parents}
    assert graph.is_whole
    assert graph.states() == {"BLOCKED": 4, "UNCLAIMED": 1}
    assert {node.waits_for for node in graph.nodes.values()} == {None, "parents"}


def test_a_job_without_relatives_is_a_graph_of_one(board: JobBoard) -> None:
    job = board.post("alone")
    at = job.created_on
    node = Node(job.uuid, "alone", "UNCLAIMED", created_on=at, last_modified=at, due_on=at)
    assert board.graph(job.uuid) == Graph(job.uuid, {job.uuid: node})


def test_ended_parents_are_shown_as_they_ended_also_when_they_are_forgotten(board: JobBoard) -> None:
    jobs = post_graph(board, {"done": [], "failed": [], "purged": [], "forgotten": [], "child": PIPELINE_PARENTS})
    end(board, jobs["done"])
    board.trash(jobs["failed"], by="me", reason="bad")
    board.trash(jobs["purged"], by="me", reason="bad")
    board.purge(jobs["purged"])
    board.claim(jobs["forgotten"], "worker")
    client = client_of(board)
    client.retention = 0.0
    board.consume(jobs["forgotten"], "worker")
    graph = board.graph(jobs["child"].uuid)
    states = {node.name: node.state for node in graph.nodes.values()}
    assert {node.name for node in graph.failed} == {"child", "failed", "purged"}
    assert states == {
        "child": "TRASHED", "done": "COMPLETE", "failed": "TRASHED", "purged": "CANCELLED", "forgotten": "COMPLETE",
    }  # fmt: skip


def test_a_child_that_is_gone_has_neither_the_name_nor_the_state_of_its_parent(board: JobBoard) -> None:
    jobs = post_graph(board, {"plan": [], "part": ["plan"], "other": ["plan"], "report": ["part"]})
    end(board, jobs["plan"])
    board.cancel(jobs["other"])
    board.cancel(jobs["part"])
    graph = board.graph(jobs["plan"].uuid)
    found = {uuid: (node.name, node.state) for uuid, node in graph.nodes.items()}
    assert found == {
        jobs["plan"].uuid: ("plan", "COMPLETE"), jobs["other"].uuid: ("", "GONE"),
        jobs["part"].uuid: ("part", "CANCELLED"), jobs["report"].uuid: ("report", "TRASHED"),
    }  # fmt: skip
    assert ([node.uuid for node in graph.gone], graph.is_over) == ([jobs["other"].uuid], True)
    assert f"├─ job {jobs['other'].uuid[-8:]}  gone" in [line.replace("└", "├") for line in tree_of(graph)]


PIPELINE_PARENTS = ["done", "failed", "purged", "forgotten"]


def test_a_fan_out_of_ten_thousand_is_read_in_pages(board: JobBoard) -> None:
    children = {f"part {number}": ["plan"] for number in range(9_998)}
    jobs = post_graph(board, {"plan": [], **children, "report": list(children)})
    requests = count_requests(board)
    graph = board.graph(jobs["plan"].uuid)
    assert (len(graph.nodes), len(graph.edges), graph.is_whole) == (10_000, 19_996, True)
    asked = len(requests)
    assert sum(len(graph.parents(uuid)) + len(graph.children(uuid)) for uuid in graph.nodes) == 2 * 19_996
    # A page of 500 children; a row, a count, and the children of their own for each hundred of them.
    assert asked <= 20 + 3 * 100 + 10
    requests.clear()
    assert len(board.graph(jobs["report"].uuid).edges) == 19_996
    # The edges to its parents are read by the hundred; of these the first parents, too.
    assert len(requests) <= 100 + 20 + 4 * 100 + 10
    below = jobs_below(client_of(board), [jobs["plan"].uuid])
    assert (len(below.rows), below.is_whole) == (9_999, True)
    assert below.rows[-1].name == "report"


def test_a_graph_that_is_too_large_is_cut_and_says_so(board: JobBoard) -> None:
    jobs = post_graph(board, {"plan": [], **{f"part {number}": ["plan"] for number in range(50)}})
    graph = board.graph(jobs["plan"].uuid, most=20)
    assert (len(graph.nodes), len(graph.edges), graph.is_whole) == (21, 20, False)
    assert summary_of(graph) == "the nearest 21 jobs, there are more: 20 blocked, 1 unclaimed"
    others = board.graph(jobs["part 7"].uuid, most=50)
    assert (len(others.nodes), others.is_whole) == (51, True), "a job that is met twice counts once"
    assert not board.graph(jobs["part 7"].uuid, most=49).is_whole
    below = jobs_below(client_of(board), [jobs["plan"].uuid], most=50)
    assert (len(below.rows), below.is_whole) == (50, True)
    below = jobs_below(client_of(board), [jobs["plan"].uuid], most=49)
    assert (len(below.rows), below.is_whole) == (49, False)


def test_a_thousand_levels_are_read(board: JobBoard) -> None:
    names = [f"step {number}" for number in range(1000)]
    jobs = post_graph(board, {name: names[number - 1 : number] for number, name in enumerate(names)})
    graph = board.graph(jobs["step 500"].uuid)
    assert (graph.number, len(graph.edges), graph.is_whole) == (1000, 999, True)
    below = jobs_below(client_of(board), [jobs["step 989"].uuid])
    assert [row.name for row in below.rows] == names[990:]


GRAPH = Graph(
    "b0000000-0000-0000-0000-00000000000b",
    {
        each: Node(each, name, state, number, waits)
        for each, name, state, number, waits in [
            ("b0000000-0000-0000-0000-00000000000b", "page", "BLOCKED", 1, "parents"),
            ("a0000000-0000-0000-0000-00000000000a", 'fe"tch\\', "COMPLETE", 1, None),
            ("c0000000-0000-0000-0000-00000000000c", "resize", "TRASHED", 1200, None),
        ]
    },
    (
        Edge("a0000000-0000-0000-0000-00000000000a", "b0000000-0000-0000-0000-00000000000b"),
        Edge("a0000000-0000-0000-0000-00000000000a", "c0000000-0000-0000-0000-00000000000c", 1200),
        Edge("c0000000-0000-0000-0000-00000000000c", "b0000000-0000-0000-0000-00000000000b", 1200),
    ),
    is_folded=True,
)


def test_a_tree_shows_each_job_once_with_what_is_below() -> None:
    assert list(tree_of(GRAPH)) == [
        'fe"tch\\ 0000000a  complete',
        "├─ * page 0000000b  blocked, waits for parents",
        "└─ 1,200 x resize  trashed",
        "   └─ * page 0000000b  blocked, waits for parents",
    ]


def test_a_tree_of_many_levels_and_of_a_circle_of_folded_jobs_ends(board: JobBoard) -> None:
    names = [str(number) for number in range(5000)]
    nodes = {name: Node(name, name, "COMPLETE") for name in names}
    chain = tuple(Edge(names[number], names[number + 1]) for number in range(4999))
    assert len(list(tree_of(Graph("0", nodes, chain)))) == 5000
    circle = Graph("0", {"0": nodes["0"], "1": nodes["1"]}, (Edge("0", "1"), Edge("1", "0"), Edge("1", "1")))
    assert list(tree_of(circle)) == ["* 0 0  complete", "└─ 1 1  complete", "   └─ * 0 0  complete (see above)"]


def test_names_can_not_break_out_of_dot_or_mermaid() -> None:
    dot, mermaid = "\n".join(dot_of(GRAPH)), "\n".join(mermaid_of(GRAPH))
    assert 'label="fe\\"tch\\\\ 0000000a\\ncomplete"' in dot
    assert dot.count("->") == 3
    assert 'n1["fe#34;tch#92; 0000000a<br>complete"]:::complete' in mermaid
    assert mermaid.count("-->") == 3
    assert "n1 -->|1200| n2" in mermaid
    evil = Graph("a", {"a": Node("a", 'x"]; click a "javascript:1"\n<b>', "CLAIMED")})
    assert '"' not in "\n".join(mermaid_of(evil)).split('["')[1].split("<br>")[0]
    assert len(list(mermaid_of(evil))) == 4
    assert len(list(dot_of(evil))) == 4


def test_jobs_are_shown_with_their_keys_and_folded_ones_without(board: JobBoard) -> None:
    top = board.post("day", key="2026-11-29")
    for number in range(3):
        board.post("part", key=f"p:{number}", after=[top])
    graph = board.graph(top.uuid)
    lines = list(tree_of(graph))
    assert lines[0] == f"* day:2026-11-29 {top.uuid[-8:]}  unclaimed"
    assert sorted(line.split()[1] for line in lines[1:]) == ["part:p:0", "part:p:1", "part:p:2"]
    assert {node["key"] for node in plain_of(graph)["nodes"]} == {"2026-11-29", "p:0", "p:1", "p:2"}
    assert [node["key"] for node in plain_of(folded(graph, most=2))["nodes"]] == ["2026-11-29", None]
    assert list(tree_of(folded(graph, most=2)))[1].startswith("└─ 3 x part")


def test_parts_are_in_the_order_of_their_keys_or_else_of_their_posts(board: JobBoard) -> None:
    top = Posting("top")
    keyed = [Posting("keyed", key=f"p:{number}", after=[top]) for number in (10, 9, 2, 1)]
    plain = [Posting("plain", {"number": number}, after=[top]) for number in range(8)]
    jobs = board.post_many([top, *keyed, *plain, Posting("gather", after=[*keyed, *plain])])
    in_order = [*sorted(jobs[1:5], key=lambda job: int(str(job.key)[2:])), *jobs[5:-1]]
    uuids = [job.uuid for job in in_order]
    for start in (jobs[0], jobs[4], jobs[-1]):
        graph = board.graph(start)
        assert [node.uuid for node in graph.children(jobs[0].uuid)] == uuids
        assert [node.uuid for node in graph.parents(jobs[-1].uuid)] == uuids
        assert [uuid for uuid in graph.nodes if uuid in uuids and uuid != start.uuid] == [
            uuid for uuid in uuids if uuid != start.uuid
        ]


def test_plain_data_has_all(board: JobBoard) -> None:
    plain = plain_of(GRAPH)
    assert plain["jobs"] == 1202
    assert plain["states"] == {"TRASHED": 1200, "BLOCKED": 1, "COMPLETE": 1}
    assert (plain["whole"], plain["folded"], len(plain["nodes"]), len(plain["edges"])) == (True, True, 3, 3)


def test_a_posting_that_stands_several_times_is_as_many_jobs_with_the_same_parents(board: JobBoard) -> None:
    parent, other = board.post("a"), board.post("b")
    jobs = board.post_many([Posting("child", after=iter([parent, other]))] * 3)
    assert [sorted(each.name for each in job.parents()) for job in jobs] == [["a", "b"]] * 3
    twice = Posting("twice")
    with pytest.raises(InvalidPosting, match="which is posted 2 times"):
        board.post_many([twice, twice, Posting("child", after=[twice])])


def test_why_and_show_of_a_child_cost_the_same_with_few_and_with_many_parents(board: JobBoard) -> None:
    costs = []
    for number in (3, 2_000):
        parents = [f"{number} part {each}" for each in range(number)]
        jobs = post_graph(board, {**{name: [] for name in parents}, f"{number} report": parents})
        end(board, jobs[parents[0]])
        board.trash(jobs[parents[1]].uuid, by="ada")
        report = board.get(jobs[f"{number} report"].uuid)
        requests = count_requests(board)
        said = " ".join(reason.text for reason in why(board, report))
        assert f"{number:,}" in said
        flow_of(board, report)
        costs.append(len(requests))
    assert costs[0] == costs[1] <= 12
