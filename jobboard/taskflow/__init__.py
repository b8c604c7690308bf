"""TaskFlow's jobs, conductors and persistence on a board, by TaskFlow's own configuration; its flows as handlers.

Needs the extra ``taskflow``. The board knows nothing of this package.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from jobboard.errors import MissingExtra

if find_spec("taskflow") is None:
    raise MissingExtra("this needs the Python package 'taskflow': pip install 'jobboard[taskflow]'")

if TYPE_CHECKING:
    from jobboard.taskflow.board import TaskFlowBoard
    from jobboard.taskflow.conductors import BlockingConductor, NonBlockingConductor
    from jobboard.taskflow.errors import FactoryRefused, LateEngine
    from jobboard.taskflow.handler import flow_handler
    from jobboard.taskflow.job import TaskFlowJob
    from jobboard.taskflow.persistence import LogBookBackend

__all__ = [
    "BlockingConductor",
    "FactoryRefused",
    "LateEngine",
    "LogBookBackend",
    "NonBlockingConductor",
    "TaskFlowBoard",
    "TaskFlowJob",
    "flow_handler",
]

_MODULES = {
    "BlockingConductor": "conductors",
    "FactoryRefused": "errors",
    "LateEngine": "errors",
    "LogBookBackend": "persistence",
    "NonBlockingConductor": "conductors",
    "TaskFlowBoard": "board",
    "TaskFlowJob": "job",
    "flow_handler": "handler",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
