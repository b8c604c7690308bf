"""TaskFlow's jobs, conductors and persistence on a board: ``board: jobboard`` in TaskFlow's own configuration.

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
    from jobboard.taskflow.job import TaskFlowJob

__all__ = ["BlockingConductor", "NonBlockingConductor", "TaskFlowBoard", "TaskFlowJob"]

_MODULES = {
    "BlockingConductor": "conductors",
    "NonBlockingConductor": "conductors",
    "TaskFlowBoard": "board",
    "TaskFlowJob": "job",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
