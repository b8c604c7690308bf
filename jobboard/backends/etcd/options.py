"""The options of an etcd board, read from text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jobboard.backends.address import Address
from jobboard.backends.options import seconds

_PORT = 2379
_TLS_OPTIONS = ("ca_cert", "cert_cert", "cert_key")


def api_path(value: Any) -> str:
    """Return a path of the API with a slash at both ends."""
    path = str(value).strip("/")
    if not path:
        raise ValueError("must be a path such as /v3/")
    return f"/{path}/"


OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "timeout": seconds,
    "api_path": api_path,
    **dict.fromkeys(_TLS_OPTIONS, str),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How to reach the gateway.

    :param timeout: for how many seconds to wait for a reply.
    :param api_path: the path of the API; None to ask the server for its version.
    """

    endpoints: tuple[tuple[str, int], ...]
    tls: bool
    username: str | None
    password: str | None
    timeout: float = 5.0
    api_path: str | None = None
    ca_cert: str | None = None
    cert_cert: str | None = None
    cert_key: str | None = None

    @classmethod
    def of(cls, address: Address, options: Mapping[str, Any]) -> Settings:
        tls = address.scheme == "etcds"
        given = list(filter(options.get, _TLS_OPTIONS))
        if given and not tls:
            raise ValueError(f"option {given[0]}: this needs TLS; write etcds:// instead of etcd://")
        if ("cert_cert" in given) != ("cert_key" in given):
            raise ValueError("a client's certificate needs both cert_cert and cert_key")
        if bool(address.username) != bool(address.password):
            raise ValueError("a user needs a password, and a password a user: etcd://USER:PASSWORD@HOST:2379")
        hosts = address.hosts or (("localhost", None),)
        endpoints = tuple((host or "localhost", port or _PORT) for host, port in hosts)
        return cls(endpoints, tls, address.username, address.password, **options)
