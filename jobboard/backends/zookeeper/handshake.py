"""The first request of a connection, asked again when nobody answers it."""

from __future__ import annotations

from typing import Any

from kazoo.client import KazooClient
from kazoo.protocol.serialization import Connect

#: Seconds that the first try to connect waits for the server's word; each further one in a row waits twice as long.
_FIRST_PATIENCE = 1.0


def ask_again(client: KazooClient) -> None:
    """Let a client of the board's own not wait for the answer to one connect for as long as its session lives.

    A server that is starting accepts connections before it serves, and may swallow the first request of one (seen once
    in some 25 restarts of ZooKeeper 3.8 on a busy machine). kazoo waits for the whole session timeout, after which the
    session is gone, and every claim with it.
    """
    connection = client._connection
    invoke = connection._invoke
    patience = _FIRST_PATIENCE

    def invoke_impatiently(timeout: float, request: Any, xid: int | None = None) -> Any:
        nonlocal patience
        if not isinstance(request, Connect):
            return invoke(timeout, request, xid)
        # A server may be that slow, too: who gave up at the same moment each time would never get in.
        wait, patience = min(timeout, patience), patience * 2
        answer = invoke(wait, request, xid)
        patience = _FIRST_PATIENCE
        return answer

    connection._invoke = invoke_impatiently
