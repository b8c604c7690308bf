"""Where handlers run: in threads, in processes, or on an asyncio loop; entry points ``jobboard.executors``."""

from __future__ import annotations

from jobboard.conductor.executors.base import Executor, Finish

__all__ = ["Executor", "Finish"]
