"""Where a store is: the parts of a board's URI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

_ADVICE = "; in a user's name, a password or a path write %2F for /, %3A for :, %3F for ?, %23 for #, %40 for @"


#: The options that can stand several times.
LISTED = ("uri",)


@dataclass(frozen=True, slots=True)
class Address:
    """A board's URI in parts; ``hosts`` keeps every ``host:port`` of a list, and a missing port is None.

    ``query``: the options; what can stand there several times (:data:`LISTED`) is a list.
    """

    scheme: str
    hosts: tuple[tuple[str, int | None], ...] = ()
    path: str = ""
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    query: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, uri: str) -> Address:
        """Take a URI apart; raises ``ValueError`` that says which part is wrong, and repeats none of it.

        A password with a character that ends it too early puts its rest anywhere else.
        """
        parts = _split(uri)
        credentials, _, places = parts.netloc.rpartition("@")
        username, _, password = credentials.partition(":")
        return cls(
            scheme=parts.scheme,
            hosts=tuple(_parse_host(place) for place in places.split(",") if place),
            path=unquote(parts.path),
            username=unquote(username) or None,
            password=unquote(password) or None,
            query=_parse_query(parts.query),
        )


def _split(uri: str) -> SplitResult:
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise ValueError(f"the URI can't be taken apart{_ADVICE}") from None
    if not parts.scheme or "://" not in uri:
        raise ValueError(
            "a board's URI looks like scheme://host:port/path, such as sqlite:///jobs.db or redis://localhost:6379/0"
        )
    if parts.fragment or uri.endswith("#"):
        raise ValueError(f"a board's URI has no part after a #{_ADVICE}")
    if parts.netloc and "@" in parts.path + ("" if "@" in parts.netloc else parts.query):
        raise ValueError(f"the URI has an @ behind its host{_ADVICE}")
    return parts


def _parse_host(place: str) -> tuple[str, int | None]:
    host, colon, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    if not colon:
        host, port = place, ""
    if not port:
        return host.strip("[]"), None
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"a port of the URI must be a number from 1 to 65535{_ADVICE}")
    return host.strip("[]"), int(port)


def _parse_query(query: str) -> dict[str, Any]:
    pairs = parse_qsl(query, keep_blank_values=True)
    found: dict[str, Any] = {name: value for name, value in pairs if name not in LISTED}
    if len(found) < sum(name not in LISTED for name, _ in pairs):
        raise ValueError("an option stands twice in the URI's query")
    for name in LISTED:
        values = [value for each, value in pairs if each == name]
        if values:
            found[name] = values
    return found
