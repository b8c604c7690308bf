"""The board: what users hold. It validates, encodes, fences and maps errors, and holds no store code."""

from jobboard.board.board import JobBoard, client_of
from jobboard.schedules.collection import Schedules

__all__ = ["JobBoard", "Schedules", "client_of"]
