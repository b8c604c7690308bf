"""What is to be said of a peer: its name, its script, what its environment needs, and what it promises."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Promises:
    """What a figure is worth: what a peer, set up as it is measured, keeps when something fails.

    :param ends: whether an owner that is late can end a job that somebody else has by now.
    :param posts: whether a post that is repeated leaves one job.
    :param crash: what becomes of a job whose worker dies.
    """

    ends: str
    posts: str
    crash: str


@dataclass(frozen=True)
class Peer:
    """One library beside the board.

    :param name: how the table calls it.
    :param script: a file, as seen from the folder of the store; run as ``script URI COUNT PINGS``, it prints a JSON
        object a line.
    :param requirements: what pip installs for it.
    :param setting: how its worker is set up, for the table.
    :param promises: what it keeps at that setting.
    :param share: of the usual number of jobs; for a peer that would take minutes for them.
    :param node: what npm installs for it.
    :param table: where its jobs are, on an SQL server.
    :param is_board: whether it is the board itself, which runs with this very Python.
    """

    name: str
    script: str
    requirements: tuple[str, ...]
    setting: str
    promises: Promises
    share: float = 1.0
    node: tuple[str, ...] = ()
    table: str = ""
    is_board: bool = False


JOBBOARD = Peer(
    "jobboard",
    "../with_jobboard.py",
    requirements=(),
    setting="conductor, 64 threads",
    promises=Promises("fenced by a token", "one job", "claimed again after its expiry"),
    table="jobboard_jobs",
    is_board=True,
)
