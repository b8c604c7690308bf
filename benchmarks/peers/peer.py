"""What is to be said of a peer: its name, its script, and what its environment needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """One library beside the board.

    :param name: how the table calls it.
    :param script: a file, as seen from the folder of the store; run as ``script URI COUNT PINGS``, it prints a JSON
        object a line.
    :param requirements: what pip installs for it; none means that it runs with this very Python (the board itself).
    :param setting: how its worker is set up, for the table.
    :param share: of the usual number of jobs; for a peer that would take minutes for them.
    """

    name: str
    script: str
    requirements: tuple[str, ...] = ()
    setting: str = ""
    share: float = 1.0
