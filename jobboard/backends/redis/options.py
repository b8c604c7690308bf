"""The options of a Redis board, converted from text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jobboard.backends.options import seconds, truth

#: As many have room in a uuid.
MAX_SHARDS = 1024


def database(value: Any) -> int:
    # The value is not repeated: after a mistake in the URI it may be a part of the password.
    if not str(value).isdecimal():
        raise ValueError("a database is a number from 0 on: redis://HOST:PORT/0")
    return int(value)


def shard_count(value: Any) -> int:
    """Return of how many shards a board is, each with a hash tag of its own."""
    if not str(value).isdecimal() or not 1 <= int(value) <= MAX_SHARDS:
        raise ValueError(f"must be a number from 1 to {MAX_SHARDS}; got {value!r}")
    return int(value)


def certificates(value: Any) -> str:
    if value not in ("required", "optional", "none"):
        raise ValueError(f"must be required, optional or none, not {value!r}")
    return str(value)


@dataclass(frozen=True, slots=True)
class Durability:
    """What a mutation waits for before it returns: ``replicas`` copies, and the primary's own disk.

    Written ``none``, ``aof``, ``aof:MS``, or ``wait:N:MS``: within MS milliseconds.
    """

    replicas: int = 0
    disk: bool = False
    milliseconds: int = 1000

    @classmethod
    def parse(cls, value: Any) -> Durability:
        if isinstance(value, cls):
            return value
        match str(value).split(":"):
            case ["none"]:
                return cls()
            case ["aof"]:
                return cls(disk=True)
            case ["aof", time] if time.isdecimal() and int(time) > 0:
                return cls(disk=True, milliseconds=int(time))
            case ["wait", count, time] if count.isdecimal() and time.isdecimal() and int(count) > 0 and int(time) > 0:
                return cls(int(count), False, int(time))
        raise ValueError(f"must be none, aof, aof:MS or wait:N:MS, not {value!r}")

    @property
    def command(self) -> tuple[str, ...] | None:
        """The command that is sent after each mutation; None for none."""
        if self.disk:
            return ("WAITAOF", "1", str(self.replicas), str(self.milliseconds))
        return ("WAIT", str(self.replicas), str(self.milliseconds)) if self.replicas else None

    def is_reached(self, reply: Any) -> bool:
        if self.disk:
            return int(reply[0]) >= 1 and int(reply[1]) >= self.replicas
        return int(reply) >= self.replicas


#: Arguments of redis-py's TLS connections.
TLS_OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "ssl_ca_certs": str,
    "ssl_certfile": str,
    "ssl_keyfile": str,
    "ssl_password": str,
    "ssl_cert_reqs": certificates,
    "ssl_check_hostname": truth,
    "tls_unverified": truth,
}

OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    **TLS_OPTIONS,
    "socket_timeout": seconds,
    "client_name": str,
    "allow_eviction": truth,
    "durability": Durability.parse,
    "shards": shard_count,
}
