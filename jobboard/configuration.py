"""Several boards under one configuration: a file ``jobboard.toml`` with named boards and defaults for all of them."""

from __future__ import annotations

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobboard.board import JobBoard
from jobboard.errors import NotFound
from jobboard.fetching import fetch, options_of
from jobboard.validation import check_text

FILE = "jobboard.toml"
#: The environment's variable that names the file.
VARIABLE = "JOBBOARD_CONFIG"

_VARIABLE_IN_TEXT = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\$")
_TOP, _OWN = ("default", "defaults", "boards", "limits"), ("uri", "name", "handlers")


@dataclass(frozen=True, slots=True)
class BoardSettings:
    """What the configuration says of one board.

    :ivar uri: where it is, as for :func:`jobboard.fetch`; ``name``: its namespace in the store; ``handlers``:
        ``module:name`` for conductors, or None.
    :ivar options: further ones of :func:`jobboard.fetch`.
    :ivar table: what the configuration calls it; None if it is not from one.
    """

    uri: str | Mapping[str, Any] = field(repr=False)
    name: str
    handlers: str | None
    options: Mapping[str, Any] = field(repr=False)
    table: str | None = None

    def fetch(self, **options: Any) -> JobBoard:
        """Return the board, not yet connected; the arguments win over the configuration."""
        return fetch(self.name, self.uri, **{**self.options, **options})


@dataclass(frozen=True, slots=True)
class Configuration:
    """A file's boards, by name."""

    path: Path
    default: str | None
    boards: Mapping[str, Mapping[str, Any]] = field(repr=False)

    def board(self, name: str | None = None) -> BoardSettings:
        """Return the settings of a board; only its own ``${NAME}`` are looked up.

        :param name: None for the one that ``default`` names, or the only one.
        :raises NotFound: there is no such board.
        :raises ValueError: the environment lacks a variable.
        """
        wanted = name or self.default or (next(iter(self.boards)) if len(self.boards) == 1 else None)
        if wanted is None:
            raise NotFound(f"{self.path} has several boards and no default: name one of {', '.join(self.boards)}")
        if wanted not in self.boards:
            known = ", ".join(self.boards) or "none"
            raise NotFound(f"{self.path} has no board {wanted!r}{_near(wanted, self.boards)}; there are: {known}")
        found = {
            key: _with_variables(f"{self.path}: {wanted}.{key}", value) for key, value in self.boards[wanted].items()
        }
        own = {key: found.pop(key, None) for key in _OWN}
        return BoardSettings(own["uri"], own["name"] or wanted, own["handlers"], found, wanted)


def configuration(path: str | os.PathLike[str] | None = None) -> Configuration | None:
    """Read the configuration.

    :param path: of the file; None for the one that ``JOBBOARD_CONFIG`` names, or else the nearest ``jobboard.toml`` in
        the working folder or above it.
    :returns: None if there is none.
    :raises OSError: the file can't be read.
    :raises ValueError: it is no such file; names the key at fault, and the nearest known one. Or nobody named it, and
        it belongs to another user than this process's or root, or everybody may write to it.
    """
    named = path or os.environ.get(VARIABLE)
    found = Path(named) if named else _nearest()
    if found is None:
        return None
    with found.open("rb") as file:
        if not named:
            _check_owner(found, os.fstat(file.fileno()))
        return _read(found, file.read())


def connect(name: str | None = None, *, config: str | os.PathLike[str] | None = None, **options: Any) -> JobBoard:
    """Connect to a board of the configuration and return it; ``with`` closes it.

    :param name: of the board in the file; None for its default.
    :param config: the file, as for :func:`configuration`.
    :param options: of :func:`jobboard.fetch`; they win over the file's.
    :raises NotFound: there is no configuration, or no such board in it.
    :raises ValueError: the configuration is wrong; says where.
    :raises BoardUnavailable: the store can't be reached.
    """
    settings = configuration(config)
    if settings is None:
        raise NotFound(f"there is no {FILE} in the working folder or above it, and no {VARIABLE} in the environment")
    board = settings.board(None if name is None else check_text("name", name)).fetch(**options)
    board.connect()
    return board


def _nearest() -> Path | None:
    folder = Path.cwd()
    return next((each / FILE for each in (folder, *folder.parents) if (each / FILE).is_file()), None)


def _check_owner(path: Path, found: os.stat_result) -> None:
    """Refuse a file that another user may have put there: ``${NAME}`` would send secrets where that user likes."""
    if not hasattr(os, "geteuid"):
        return
    if found.st_uid not in (0, os.geteuid()):
        fault = f"belongs to another user ({_user_of(found.st_uid)})"
    elif found.st_mode & stat.S_IWOTH:
        fault = f"of {_user_of(found.st_uid)} may be written by everybody"
    else:
        return
    raise ValueError(f"{path} {fault}, so it is not read unasked; if you trust it, name it: {VARIABLE}={path}")


def _user_of(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _read(path: Path, data: bytes) -> Configuration:
    try:
        content = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML: {error}") from None
    _check_keys(path, "", content, _TOP)
    defaults = _table(path, "defaults", content.get("defaults", {}))
    if {"uri", "uris", "name"} & set(defaults):
        raise ValueError(f"{path}: uri, uris and name belong to a board, not to defaults")
    boards = {
        name: {**defaults, **_table(path, f"boards.{name}", board)}
        for name, board in _table(path, "boards", content.get("boards", {})).items()
    }
    for name, board in boards.items():
        if "uri" not in board and board.get("uris"):
            board["uri"] = "shards://"
        for key in _OWN:
            if not isinstance(board.get(key, ""), str) or (key == "uri" and not board.get(key)):
                raise ValueError(f"{path}: boards.{name}.{key} must be a text")
        _check_options(path, name, board)
    default = content.get("default")
    if default is not None and default not in boards:
        raise ValueError(f"{path}: default names no board: {default!r}{_near(str(default), boards)}")
    return Configuration(path, default, boards)


def _check_options(path: Path, name: str, board: Mapping[str, Any]) -> None:
    """Refuse an unknown key at once, also of a board that is not asked for."""
    _check_keys(path, f"boards.{name}.", board, (*_OWN, *options_of(str(board["uri"]))))


def _check_keys(path: Path, where: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    for key in table:
        if key not in known:
            raise ValueError(
                f"{path}: unknown key {where}{key}{_near(key, known)}; there are: {', '.join(sorted(known))}"
            )


def _near(word: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _table(path: Path, what: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{path}: {what} must be a table, such as [{what}]")
    return value


def _with_variables(where: str, value: Any) -> Any:
    """Put the environment's values in for ``${NAME}``; ``$$`` is a dollar sign."""
    if isinstance(value, list):
        return [_with_variables(where, each) for each in value]
    if not isinstance(value, str):
        return value

    def put(found: re.Match[str]) -> str:
        if found[1] is None:
            return "$"
        if found[1] not in os.environ:
            raise ValueError(f"{where}: there is no {found[1]} in the environment")
        return os.environ[found[1]]

    return _VARIABLE_IN_TEXT.sub(put, value)
