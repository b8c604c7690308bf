"""The layers, the layout and the folding of graphs of jobs: pure, so that they can be tried on odd ones."""

from __future__ import annotations

import cProfile
import itertools
import random

import pytest

from jobboard.graph.folding import MANY, MAX_UNFOLDED, OTHERS, folded
from jobboard.graph.layering import Pair, layers_of, without_cycles
from jobboard.graph.model import Edge, Graph, Node
from jobboard.operate.graph.layout import layout_of

DIAMOND = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]


def graph_of(pairs: list[Pair], root: str, names: dict[str, str] | None = None, state: str = "COMPLETE") -> Graph:
    uuids = dict.fromkeys(each for pair in pairs for each in pair)
    nodes = {uuid: Node(uuid, (names or {}).get(uuid, uuid), state) for uuid in uuids}
    return Graph(root, nodes, tuple(Edge(*pair) for pair in pairs))


def nodes_of(pairs: list[Pair]) -> list[str]:
    return list(dict.fromkeys(each for pair in pairs for each in pair))


def test_a_child_stands_behind_the_last_of_its_parents() -> None:
    pairs = [*DIAMOND, ("a", "d"), ("x", "d")]
    layers = layers_of(nodes_of(pairs), pairs)
    # What has no parents stands beside those that it goes with, and not in front of all.
    assert layers == {"a": 0, "b": 1, "c": 1, "d": 2, "x": 1}


@pytest.mark.parametrize("seed", range(20))
def test_layers_rise_along_each_edge_whatever_the_graph(seed: int) -> None:
    draw = random.Random(seed)
    names = [str(number) for number in range(60)]
    pairs = [(draw.choice(names), draw.choice(names)) for _ in range(draw.randrange(200))]
    forward = without_cycles(names, pairs)
    layers = layers_of(names, pairs)
    assert all(layers[parent] < layers[child] for parent, child in forward)
    assert min(layers.values()) == 0
    assert {frozenset(pair) for pair in pairs if pair[0] != pair[1]} == {frozenset(pair) for pair in forward}
    upward = [pair for pair in pairs if names.index(pair[0]) < names.index(pair[1])]
    assert without_cycles(names, upward) == list(dict.fromkeys(upward)), "what has no cycle is left as it is"


@pytest.mark.parametrize("seed", range(10))
def test_no_two_nodes_share_a_place_and_routes_lead_from_parent_to_child(seed: int) -> None:
    draw = random.Random(seed)
    names = [str(number) for number in range(60)]
    pairs = list({(draw.choice(names), draw.choice(names)) for _ in range(90)})
    layout = layout_of(names, pairs)
    assert len(set(layout.places.values())) == len(names)
    assert set(layout.routes) == set(pairs)
    for (parent, child), route in layout.routes.items():
        assert route[0] == layout.places[parent]
        assert route[-1] == layout.places[child]
        assert all(abs(one[0] - other[0]) == 1 for one, other in itertools.pairwise(route)) or parent == child
    assert layout == layout_of(names, pairs)


def test_lines_that_need_not_cross_do_not() -> None:
    pairs = [("a1", "b3"), ("a2", "b2"), ("a3", "b1"), ("b3", "c2"), ("b2", "c1"), ("b1", "c3")]
    places = layout_of(["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3"], pairs).places
    for one, other in itertools.combinations(pairs, 2):
        starts, ends = [places[pair[0]] for pair in (one, other)], [places[pair[1]] for pair in (one, other)]
        if starts[0][0] == starts[1][0]:
            assert (starts[0][1] - starts[1][1]) * (ends[0][1] - ends[1][1]) > 0


def test_a_diamond_and_a_chain_look_as_one_draws_them() -> None:
    diamond = layout_of(["a", "b", "c", "d"], DIAMOND)
    assert diamond.places == {"a": (0, 0.0), "b": (1, -0.5), "c": (1, 0.5), "d": (2, 0.0)}
    assert (diamond.layers, diamond.top, diamond.bottom) == (3, -0.5, 0.5)
    chain = layout_of(list("abcde"), list(itertools.pairwise("abcde")))
    assert chain.places == {name: (layer, 0.0) for layer, name in enumerate("abcde")}


def test_nothing_and_one_node_have_a_layout() -> None:
    assert layout_of([], []).places == {}
    assert layout_of(["a"], []).places == {"a": (0, 0.0)}
    assert layout_of(["a"], [("a", "a")]).routes == {("a", "a"): [(0, 0.0), (0, 0.0)]}


@pytest.mark.parametrize("shape", ["wide", "deep", "dense"])
def test_ten_thousand_nodes_are_folded_and_placed_at_a_cost_that_grows_with_them_alone(shape: str) -> None:
    def calls(size: int) -> int:
        names = [str(number) for number in range(size)]
        pairs = {
            "wide": [("0", name) for name in names[1:-1]] + [(name, names[-1]) for name in names[1:-1]],
            "deep": list(itertools.pairwise(names)),
            "dense": [(names[low], names[low + step]) for step in (1, 7, 40) for low in range(size - step)],
        }[shape]
        graph = graph_of(pairs, "0", dict.fromkeys(names, "same"))
        profile = cProfile.Profile()
        small = profile.runcall(folded, graph)
        assert len(small.nodes) <= MAX_UNFOLDED
        profile.runcall(layout_of, list(small.nodes), [(edge.parent, edge.child) for edge in small.edges])
        profile.runcall(layout_of, names, pairs)
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(10_000) < 15 * calls(1000)


def test_a_small_graph_is_not_folded() -> None:
    graph = graph_of([("0", str(number)) for number in range(1, MAX_UNFOLDED)], "0")
    assert folded(graph) is graph


def fan_of(states: dict[str, int]) -> Graph:
    """Return a step, its parts, so many of each state, and a job that waits for them."""
    parts = [(f"{state}-{number}", state) for state, many in states.items() for number in range(many)]
    nodes = {"0": Node("0", "plan", "COMPLETE"), **{part: Node(part, "part", state) for part, state in parts}}
    nodes["end"] = Node("end", "gather", "BLOCKED")
    edges = [pair for part, _ in parts for pair in (Edge("0", part), Edge(part, "end"))]
    return Graph("0", nodes, tuple(edges))


def test_the_parts_of_a_small_fan_out_are_folded_but_for_those_in_the_trash() -> None:
    small = folded(fan_of({"COMPLETE": 15, "CLAIMED": 3, "TRASHED": 2}))
    assert small.is_folded
    assert [(node.name, node.state, node.number) for node in small.nodes.values()] == [
        ("plan", "COMPLETE", 1),
        ("part", "COMPLETE", 15),
        ("part", "CLAIMED", 3),
        ("part", "TRASHED", 1),
        ("part", "TRASHED", 1),
        ("gather", "BLOCKED", 1),
    ]


def test_a_fan_out_of_a_few_parts_is_not_folded() -> None:
    graph = fan_of({"COMPLETE": MANY - 2, "TRASHED": 1})
    assert folded(graph) is graph


def test_a_fan_out_folds_to_a_node_for_each_name_and_state() -> None:
    children = [str(number) for number in range(1, 10_001)]
    nodes = {"0": Node("0", "plan", "COMPLETE"), "end": Node("end", "report", "BLOCKED", waits_for="parents")}
    for number, child in enumerate(children):
        nodes[child] = Node(child, "resize", "TRASHED" if number % 1000 == 0 else "COMPLETE")
    edges = [Edge("0", child) for child in children] + [Edge(child, "end") for child in children]
    small = folded(Graph("end", nodes, tuple(edges)))
    assert small.is_folded
    assert [(node.name, node.state, node.number) for node in small.nodes.values()] == [
        ("plan", "COMPLETE", 1),
        ("report", "BLOCKED", 1),
        ("resize", "TRASHED", 10),
        ("resize", "COMPLETE", 9990),
    ]
    assert small.nodes["end"].waits_for == "parents"
    assert sorted(edge.number for edge in small.edges) == [10, 10, 9990, 9990]
    assert small.number == 10_002
    assert small.states() == {"TRASHED": 10, "BLOCKED": 1, "COMPLETE": 9991}


def test_a_deep_chain_of_one_name_folds_to_one_node_beside_the_job_itself() -> None:
    names = [str(number) for number in range(1000)]
    small = folded(graph_of(list(itertools.pairwise(names)), "500", dict.fromkeys(names, "step")))
    assert [(node.uuid, node.number) for node in small.nodes.values()] == [("0", 999), ("500", 1)]
    assert len(layout_of(list(small.nodes), [(edge.parent, edge.child) for edge in small.edges]).places) == 2


def test_of_too_many_names_the_rarest_are_one_node() -> None:
    names = [str(number) for number in range(10_000)]
    pairs = list(itertools.pairwise(names))
    labels = {name: "often" if number < 100 else f"name {number}" for number, name in enumerate(names)}
    small = folded(graph_of(pairs, "9999", labels))
    assert len(small.nodes) <= MAX_UNFOLDED
    assert small.number == 10_000
    by_name = {node.name: node.number for node in small.nodes.values()}
    assert by_name["often"] == 100
    assert by_name[OTHERS] > 9000
    assert by_name["name 9999"] == 1
