"""The board: what users hold. It validates, encodes, fences and maps errors, and holds no store code."""

from jobboard.board.board import JobBoard, claims_for, client_of, extend_each, handles_of, lend, register, suspend

__all__ = ["JobBoard", "claims_for", "client_of", "extend_each", "handles_of", "lend", "register", "suspend"]
