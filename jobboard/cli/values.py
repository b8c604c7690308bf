"""Reads the values of options: details, moments and time spans."""

from __future__ import annotations

import os
import stat
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobboard.operate.durations import seconds_of
from jobboard.operate.json_values import parse_details, parse_json

if TYPE_CHECKING:
    _FloatType = click.ParamType[float]
    _TextType = click.ParamType[str]
else:  # it is generic since click 8.4, and older versions do as well
    _FloatType = _TextType = click.ParamType


class Span(_FloatType):
    """An option's time span, such as ``90s``, ``15m``, ``1h30m``, ``7d``, or a number of seconds."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else seconds_of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


SPAN = Span()


class Filter(_TextType):
    """What an option selects by. Empty is refused: a shell's unset variable would select everything."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            self.fail("it is empty; leave it out to select by something else", param, ctx)
        return str(value)


FILTER = Filter()


def details_of(text: str | None) -> dict[str, Any] | None:
    """Read details: a JSON object, @FILE, or - for standard input."""
    if text is None:
        return None
    try:
        return parse_details(read_text(text))
    except ValueError as error:
        raise click.UsageError(f"--details {error}") from None


def moment_of(option: str, text: str) -> datetime:
    """Read a moment: ISO 8601 with an offset, or as the command line writes it."""
    try:
        moment = datetime.fromisoformat(f"{text[:-4]}+00:00" if text.endswith(" UTC") else text)
    except ValueError:
        raise click.UsageError(f"{option} is no ISO 8601 time: {text!r}; write 2030-01-31T09:00+01:00") from None
    if moment.tzinfo is None:
        raise click.UsageError(f"{option} needs an offset, as in 2030-01-31T09:00+01:00")
    return moment


def json_of(option: str, text: str) -> Any:
    """Read JSON: as such, from @FILE, or from standard input for -."""
    text = read_text(text)
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{option} is no JSON that can be read: {error}") from None


def read_text(text: str) -> str:
    """Read text: as such, from @FILE, or from standard input for -."""
    if text == "-":
        return sys.stdin.read()
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{text[1:]} is no text in UTF-8: {error}") from None


def is_readable_by_all(file: Path) -> bool:
    """Whether every user of the host may read a file; a pipe is not judged, and nothing where files have no modes."""
    mode = file.stat().st_mode
    return os.name == "posix" and stat.S_ISREG(mode) and bool(mode & stat.S_IROTH)


def source_of(file: str) -> str:
    """Return what :func:`read_text` takes for a file, or ``-`` for standard input."""
    return "-" if file == "-" else f"@{file}"


def uri_of(option: str, text: str) -> str:
    """Read a URI as :func:`jobboard.opening.read_uri` does; an error names the option."""
    from jobboard.opening import read_uri

    try:
        return read_uri(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None
