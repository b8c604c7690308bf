"""Words of users in commands that are printed to be copied: a shell and the command line take each for one word."""

from __future__ import annotations

import shlex


def argument(word: str) -> str:
    """Return a word as the last argument of a command; as an option's value, ``shlex.quote`` is enough.

    ``--all`` becomes ``-- --all``, since what begins with a dash would be an option.
    """
    return f"-- {shlex.quote(word)}" if word.startswith("-") else shlex.quote(word)


def file_argument(path: str) -> str:
    """Return the path of a file so that it is no option, wherever it stands; ``-`` is standard input."""
    return f"./{path}" if path.startswith("-") and path != "-" else path
