"""One way in: from arguments, the environment and the configuration to an open board."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobboard.board import JobBoard
from jobboard.configuration import FILE, BoardSettings, configuration
from jobboard.errors import NotFound
from jobboard.plugins import plugin_names
from jobboard.validation import check_text

#: The environment's variables for the URI and the name.
URI, NAME = "JOBBOARD_URI", "JOBBOARD_NAME"
#: The namespace of a board that nobody named.
DEFAULT_NAME = "jobs"

#: Stands for a value of the environment in a URI.
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def open(
    board: str | None = None,
    uri: str | Mapping[str, Any] | None = None,
    *,
    config: str | os.PathLike[str] | None = None,
    **options: Any,
) -> JobBoard:
    """Return a connected board: ``jobboard.open("jobs", "sqlite:///jobs.db")``; ``with`` closes it.

    Without ``uri`` it is where ``JOBBOARD_URI`` in the environment says, or else the board of this name in the
    configuration (see :func:`jobboard.connect`); the command line finds its board in the same way.

    :param board: the board's name; None for ``JOBBOARD_NAME`` in the environment, or else ``jobs`` at a URI and the
        default of the configuration.
    :param uri: where it is, as for :func:`jobboard.fetch`; ``@FILE`` reads it from a file, and in either ``${NAME}`` is
        a variable of the environment.
    :param config: the file of named boards; it wins over ``JOBBOARD_URI``.
    :param options: of :func:`jobboard.fetch`; they win over those of the configuration.
    :raises NotFound: nothing says where the board is, or the configuration has no such board.
    :raises UnknownBackend: there is no such store.
    :raises ValueError: an option, the configuration, or a variable in the URI is wrong; says which.
    :raises BoardUnavailable: the store can't be reached.
    """
    opened = find(board, uri, config).fetch(**options)
    opened.connect()
    return opened


def find(
    board: str | None, uri: str | Mapping[str, Any] | None, config: str | os.PathLike[str] | None
) -> BoardSettings:
    """Return what :func:`open` opens with these arguments."""
    if board is not None and "://" in check_text("a board's name", board):
        # It may have a password, which no message may repeat.
        raise ValueError('the board\'s name comes first, then the URI: jobboard.open("jobs", "sqlite:///jobs.db")')
    where = (os.environ.get(URI) or None) if uri is None and config is None else uri
    if isinstance(where, str):
        where = read_uri(where)
    if where is None and board is not None:
        # It is a name in the configuration, which may call the board another in the store.
        boards = configuration(config)
        found = None if boards is None else boards.board(board)
    else:
        found = locate(where, board or os.environ.get(NAME) or None, config)
    if found is None:
        raise NotFound(
            f'nothing says where the board is: jobboard.open("jobs", "sqlite:///jobs.db"), {URI} in the environment, '
            f"or a file {FILE} in the working folder or above it"
        )
    return found


def locate(
    where: str | Mapping[str, Any] | None, name: str | None, config: str | os.PathLike[str] | None
) -> BoardSettings | None:
    """Return where a board is, with its name and its options; None if nothing says it.

    :param where: a URI or what else :func:`jobboard.fetch` takes, or a board of the configuration; None for its
        default.
    :param name: the namespace; None for that of the configuration, or the default.
    :raises NotFound: there is no such board in the configuration.
    """
    if isinstance(where, Mapping) or (where is not None and ":" in where):
        return BoardSettings(where, DEFAULT_NAME if name is None else name, None, {})
    found = configuration(config)
    known: Collection[str] = () if found is None else found.boards
    if where is not None and where not in known and (found is None or where in plugin_names("jobboard.backends")):
        return BoardSettings(where, DEFAULT_NAME if name is None else name, None, {})
    if found is None:
        return None
    settings = found.board(where)
    return settings if name is None else replace(settings, name=name)


def read_uri(text: str) -> str:
    """Read a URI that may have a password, which is better kept in a file or in the environment.

    :param text: the URI, or @FILE, which has it; in either ``${NAME}`` is a variable of the environment.
    :raises ValueError: there is no such variable, or the file has more than one line.
    :raises OSError: the file can't be read.
    """
    if text.startswith("@"):
        file, text = text[1:], Path(text[1:]).read_text(encoding="utf-8").strip()
        if len(text.splitlines()) != 1:
            raise ValueError(f"{file} must have one line, the URI")

    def value_of(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise ValueError(f"there is no {found[1]} in the environment")
        return os.environ[found[1]]

    return _VARIABLE.sub(value_of, text)
