"""From a scheme to the backend that an entry point names, and from a URI to a backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from jobboard.backends.address import Address
from jobboard.backends.base import Backend
from jobboard.errors import UnknownBackend
from jobboard.plugins import load_plugin, names_by_module

_NAMESPACE = "jobboard.backends"

#: The drivers that a URI of SQLAlchemy's may name; the board has a driver of its own, whichever that is.
_SQLALCHEMY_DRIVERS: Mapping[str, frozenset[str]] = {
    "mariadb": frozenset({"aiomysql", "asyncmy", "mariadbconnector", "mysqlconnector", "mysqldb", "pymysql"}),
    "mysql": frozenset({"aiomysql", "asyncmy", "mysqlconnector", "mysqldb", "pymysql"}),
    "postgresql": frozenset({"asyncpg", "pg8000", "psycopg", "psycopg2", "psycopg2cffi", "psycopg_async"}),
    "sqlite": frozenset({"aiosqlite", "pysqlite"}),
}

#: Option name -> what makes its value of text.
Converters = Mapping[str, Callable[[Any], Any]]


class UnknownOption(ValueError):
    """A store has no such option; says which there are.

    :ivar known: which there are.
    """

    def __init__(self, option: str, scheme: str, known: Iterable[str]) -> None:
        self.option, self.scheme, self.known = option, scheme, sorted(known)
        near = "".join(f"; did you mean {close}?" for close in get_close_matches(option, self.known, n=1))
        super().__init__(f"unknown option {option!r} for {scheme}{near}; there are {', '.join(self.known)}")


def load_backend(scheme: str) -> type[Backend]:
    """Return the class of the backends of a scheme.

    :raises UnknownBackend: there is none, or what it needs isn't installed; says which there are.
    """
    try:
        found = load_plugin(_NAMESPACE, scheme, names_by_module)
    except LookupError as error:
        raise UnknownBackend(f"backend {error}; a URI is such as sqlite:///jobs.db") from None
    if not (isinstance(found, type) and issubclass(found, Backend)):
        raise UnknownBackend(f"the entry point {scheme!r} is no Backend")
    return found


def without_driver(scheme: str) -> str:
    """Return a scheme as entry points name it."""
    store, _, driver = scheme.partition("+")
    return store if driver in _SQLALCHEMY_DRIVERS.get(store, ()) else scheme


def sort_options(
    kind: type[Backend], given: Mapping[str, Any], others: Converters
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate the backend's options from the others, and convert values given as text.

    :raises ValueError: neither has such an option, or a value is wrong.
    """
    backend_options: dict[str, Any] = {}
    other_options: dict[str, Any] = {}
    for option, value in given.items():
        if option in kind.options:
            backend_options[option] = _convert(option, kind.options[option], value)
        elif option in others:
            other_options[option] = _convert(option, others[option], value)
        else:
            raise UnknownOption(option, kind.scheme, {*kind.options, *others})
    return backend_options, other_options


def _convert(option: str, converter: Callable[[Any], Any], value: Any) -> Any:
    try:
        return converter(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"option {option}: {error}") from None


def make_backend(kind: type[Backend], board: str, address: Address, options: Mapping[str, Any]) -> Backend:
    """Return a backend of a board, not opened; with the option ``shards``, one over so many boards ``NAME/3``."""
    count = options.get("shards")
    if count is None:
        return kind(board, address, **options)
    own = {name: value for name, value in options.items() if name != "shards"}
    shards = [kind(f"{board}/{number}", address, **own) for number in range(count)]
    return load_backend("shards")(board, address, shards=shards, home=kind(board, address, **options))


def backend_at(board: str, uri: str) -> Backend:
    """Return a backend of a board at a URI, whose options are the backend's own; not opened.

    :raises UnknownBackend: there is no such backend, or what it needs isn't installed.
    :raises ValueError: the URI or an option is wrong.
    """
    address = Address.parse(uri)
    address = replace(address, scheme=without_driver(address.scheme))
    kind = load_backend(address.scheme)
    options, _ = sort_options(kind, address.query, {})
    if address.scheme == "shards" or options.get("shards") is not None:
        raise ValueError("a shard can't have shards of its own")
    return kind(board, address, **options)
