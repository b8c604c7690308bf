"""Counts what reaches a server of etcd."""

from __future__ import annotations

import re
from collections.abc import Callable

import requests
from servers.etcd_servers import EtcdServer


class Requests:
    """Counts what reaches the server, by its own measure; a watch is one when it begins."""

    def __init__(self, server: EtcdServer) -> None:
        self._url = f"{server.url}/metrics"

    def of(self, work: Callable[[], object]) -> dict[str, int]:
        before = self.count()
        work()
        after = self.count()
        return {method: n - before.get(method, 0) for method, n in after.items() if n != before.get(method, 0)}

    def count(self) -> dict[str, int]:
        text = requests.get(self._url, timeout=5).text
        found = re.findall(r'^grpc_server_started_total\{grpc_method="(\w+)".*\} (\S+)$', text, re.MULTILINE)
        return {method: int(float(n)) for method, n in found if method not in ("Status", "LeaseLeases")}
