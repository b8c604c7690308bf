"""The options of a ZooKeeper board, made of text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, Id

from jobboard.backends.address import Address
from jobboard.backends.options import seconds, tls_checks, truth

DEFAULT_PORT = 2181
_RIGHTS = {"r": 1, "w": 2, "c": 4, "d": 8, "a": 16}


def access(value: Any) -> Sequence[Any]:
    """Return an ACL given as kazoo's, or as text.

    ``open``: everybody may do anything. ``creator``: only those with the creator's credentials. Or what
    ZooKeeper's own command line takes: ``world:anyone:r,digest:USER:HASH:cdrwa``.
    """
    if not isinstance(value, str):
        rows = list(value)
        if not rows or not all(isinstance(row, ACL) for row in rows):
            raise ValueError("must be text or a list of kazoo.security.ACL")
        return rows
    if value == "open":
        return list(OPEN_ACL_UNSAFE)
    if value == "creator":
        return list(CREATOR_ALL_ACL)
    return [_acl_row(text) for text in value.split(",")]


def _acl_row(text: str) -> Any:
    scheme, _, rest = text.partition(":")
    id, colon, rights = rest.rpartition(":")
    if not scheme or not colon or not rights or not set(rights) <= set(_RIGHTS):
        raise ValueError(f"must be open, creator, or SCHEME:ID:RIGHTS,... with rights out of cdrwa; got {text!r}")
    return ACL(sum(_RIGHTS[right] for right in set(rights)), Id(scheme, id))


def lent(value: Any) -> KazooClient:
    if not isinstance(value, KazooClient):
        raise ValueError(f"must be a kazoo.client.KazooClient, not {type(value).__name__}")
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a dict, not {type(value).__name__}")
    return value


#: What kazoo's client takes for TLS beside ``use_ssl``, under its own names, and what turns verification off.
TLS_OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "ca": str,
    "certfile": str,
    "keyfile": str,
    "keyfile_password": str,
    "verify_certs": truth,
    "check_hostname": truth,
    "tls_unverified": truth,
}

#: What kazoo's client takes for TLS and SASL, under its own names.
KAZOO_OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    **TLS_OPTIONS,
    "use_ssl": truth,
    "sasl_options": mapping,
    "randomize_hosts": truth,
}

_VERIFIED = {"verify_certs": True, "check_hostname": True}
_UNVERIFIED = dict.fromkeys(_VERIFIED, False)


def tls_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the TLS arguments of kazoo's client; none without TLS."""
    given = {name: options[name] for name in TLS_OPTIONS if name in options}
    if not options.get("use_ssl"):
        if given:
            raise ValueError(f"option {next(iter(given))}: there is no TLS without use_ssl=true")
        return {}
    unverified = given.pop("tls_unverified", False)
    return {"use_ssl": True, **given, **tls_checks(given, _VERIFIED, _UNVERIFIED, unverified=unverified)}


def client_settings(address: Address, session_timeout: float, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what kazoo's client is made with."""
    hosts = address.hosts or (("localhost", None),)
    settings: dict[str, Any] = {
        **{name: value for name, value in options.items() if name not in TLS_OPTIONS},
        **tls_of(options),
        "hosts": ",".join(f"{_bracketed(host or 'localhost')}:{port or DEFAULT_PORT}" for host, port in hosts),
        "timeout": session_timeout,
    }
    if address.username is not None:
        settings["auth_data"] = [("digest", f"{address.username}:{address.password or ''}")]
    return settings


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    **KAZOO_OPTIONS,
    "acl": access,
    "client": lent,
    "session_timeout": seconds,
    "request_timeout": seconds,
}
