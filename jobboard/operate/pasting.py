"""Words of users in commands that are printed to be copied: a shell and the command line take each for one word."""

from __future__ import annotations

import re
import shlex

#: Where a command begins in an advice of ours.
_COMMAND = re.compile(r"((?:[:;]|\bwith) )jobboard (?=[a-z])")


def argument(word: str) -> str:
    """Return a word as the last argument of a command; as an option's value, ``shlex.quote`` is enough.

    ``--all`` becomes ``-- --all``, since what begins with a dash would be an option.
    """
    return f"-- {shlex.quote(word)}" if word.startswith("-") else shlex.quote(word)


def commands_by(program: str, advice: str) -> str:
    """Return an advice with commands of the program that is run here, such as ``manage.py jobboard``."""
    return _COMMAND.sub(lambda found: f"{found[1]}{program} ", advice)


def file_argument(path: str) -> str:
    """Return the path of a file so that it is no option, wherever it stands; ``-`` is standard input."""
    return f"./{path}" if path.startswith("-") and path != "-" else path
