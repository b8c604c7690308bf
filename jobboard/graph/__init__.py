"""The graph around a job: which jobs it waits for, which wait for it, and how they all stand."""

from jobboard.graph.model import Edge, Graph, Node

__all__ = ["Edge", "Graph", "Node"]
