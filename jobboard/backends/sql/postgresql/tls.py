"""TLS to PostgreSQL, by libpq's parameters: without them libpq would send the password to any server that answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from jobboard.backends.options import is_on_this_host, tls_checks


def tls_of(given: Mapping[str, Any], host: str | None, *, unverified: bool) -> dict[str, Any]:
    """Return what makes libpq verify the server; nothing for a server on this host of whose TLS nothing is said.

    :param given: libpq's parameters as the user wrote them.
    :param host: one or more hosts, with commas between them; None if the URI names none.
    :raises ValueError: what is said would let an impostor pass, or contradicts itself.
    """
    options = [name for name in given if name.startswith("ssl")]
    if given.get("sslmode") == "disable":
        if len(options) > 1 or unverified:
            raise ValueError("sslmode=disable: there is no TLS, so leave out all other options of it")
        return {}
    if not options and not unverified and (_is_local(given, host) or _is_disabled()):
        return {}
    return tls_checks(given, {"sslmode": "verify-full"}, {"sslmode": "require"}, unverified=unverified)


def _is_local(given: Mapping[str, Any], host: str | None) -> bool:
    """Whether every host is this one, as far as the URI and libpq's environment say; a service may name any."""
    if host is None and ("service" in given or "PGSERVICE" in os.environ):
        return False
    # Without a host libpq takes a Unix socket.
    hosts = host or os.environ.get("PGHOST") or os.environ.get("PGHOSTADDR") or "/"
    return all(is_on_this_host(each) for each in hosts.split(","))


def _is_disabled() -> bool:
    mode = os.environ.get("PGSSLMODE") or "verify-full"
    if mode not in ("disable", "verify-full"):
        raise ValueError(f"PGSSLMODE={mode} lets an impostor pass; make it verify-full, or say tls_unverified=true")
    return mode == "disable"
