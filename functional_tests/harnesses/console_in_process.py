"""The console in a thread of this process, for boards in memory."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import uvicorn

from jobboard import JobBoard
from jobboard.console import app


@contextlib.contextmanager
def console_in_process(boards: Mapping[str, JobBoard], **options: Any) -> Iterator[str]:
    """Serve a console of these boards on a free port; gives its address, such as ``http://127.0.0.1:41234``."""
    config = uvicorn.Config(app(boards, **options), log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)
