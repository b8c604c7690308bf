"""From a URI, a name or a dict to a board."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from jobboard.backends.address import Address
from jobboard.backends.loading import load_backend, make_backend, sort_options, without_driver
from jobboard.backends.options import truth
from jobboard.board import JobBoard
from jobboard.converter import check_converter
from jobboard.validation import check_text, option_in_seconds

#: A backend's name. Whatever else there is may be a mistyped URI with a password, which no message may repeat.
_NAME = re.compile(r"[a-z][a-z0-9+._-]*", re.ASCII | re.IGNORECASE)

#: The options of every board, with what makes their values of text.
_BOARD_OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "expiry": option_in_seconds,
    "retention": option_in_seconds,
    "largest_details": int,
    "patience": option_in_seconds,
    "least_interval": option_in_seconds,
    "create": truth,
    "converter": check_converter,
    "gather": truth,
}


def fetch(name: str, conf: str | Mapping[str, Any], **kwargs: Any) -> JobBoard:
    """Return a board, not yet connected.

    :param name: the board's name, its namespace in the store.
    :param conf: a URI (``sqlite:///jobs.db``, or as SQLAlchemy writes it: ``mysql+mysqldb://host/database``), a
        backend's name (``memory``), or a dict with ``board`` (a backend's name) and any of ``host``, ``port``,
        ``hosts`` (a list of ``host:port``), ``path``, ``username``, ``password`` and options.
    :param kwargs: options of the backend, or of every board; they win over those of ``conf``. Every board has

        - ``expiry``: seconds that a claim lasts unless it says otherwise (30); ``math.inf`` for never;
        - ``retention``: seconds that the record of a consumed job stays readable (3600); 0 for none;
        - ``largest_details``: bytes that details, a result or a checkpoint may take once encoded (512 KiB);
        - ``patience``: seconds for which a request is repeated after its reply was lost (5);
        - ``least_interval``: seconds of the shortest ``Every`` that a schedule may have when it is added (1);
        - ``gather``: True to let the calls of several threads share requests: what they post, extend, consume, abandon,
          trash and cancel while a request is under way goes into the next one (False);
        - ``create``: False to refuse a board that nobody has opened or used before (True);
        - ``converter``: a :class:`~jobboard.Converter`, for types that msgpack does not carry (None).
    :raises UnknownBackend: there is no such backend, or what it needs isn't installed; says which there are.
    :raises ValueError: an option that neither has, or a bad value.
    """
    check_text("a board's name", name)
    address, given = _address_of(conf)
    address = replace(address, scheme=without_driver(address.scheme))
    kind = load_backend(address.scheme)
    options, board_options = sort_options(kind, {**address.query, **given, **kwargs}, _BOARD_OPTIONS)
    return JobBoard(name, make_backend(kind, name, address, options), **board_options)


@contextmanager
def backend(name: str, conf: str | Mapping[str, Any], **kwargs: Any) -> Iterator[JobBoard]:
    """Fetch a board, connect it, and close it at the end of the ``with`` block; arguments as for :func:`fetch`.

    :raises BoardUnavailable: the store can't be reached.
    """
    with fetch(name, conf, **kwargs) as board:
        yield board


def options_of(uri: str) -> set[str]:
    """Return the options that a board at this URI can have."""
    kind = load_backend(without_driver(uri.partition(":")[0]))
    return {*kind.options, *_BOARD_OPTIONS}


def _address_of(conf: str | Mapping[str, Any]) -> tuple[Address, dict[str, Any]]:
    if isinstance(conf, str):
        return (Address(conf) if _NAME.fullmatch(conf) else Address.parse(conf)), {}
    if not isinstance(conf, Mapping):
        raise TypeError(f"conf must be a URI, a backend's name or a dict, not {type(conf).__name__}")
    given = dict(conf)
    scheme = given.pop("board", None)
    if not isinstance(scheme, str):
        raise ValueError("a dict needs the backend's name: {'board': 'sqlite', ...}")
    if not _NAME.fullmatch(scheme):
        return Address.parse(scheme), given
    return _address_of_parts(scheme, given), given


def _address_of_parts(scheme: str, given: dict[str, Any]) -> Address:
    """Take the parts of an address out of a dict; the options stay in it."""
    hosts = given.pop("hosts", None) or []
    host, port = given.pop("host", None), given.pop("port", None)
    if host is not None or port is not None:
        hosts = [f"{host or 'localhost'}:{port}" if port is not None else str(host), *hosts]
    places = ",".join([hosts] if isinstance(hosts, str) else [str(place) for place in hosts])
    path = str(given.pop("path", ""))
    return Address(
        scheme=scheme,
        hosts=Address.parse(f"{scheme}://{places}").hosts,
        path=path,
        username=given.pop("username", None),
        password=given.pop("password", None),
    )
